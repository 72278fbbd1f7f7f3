"""``lacuna glossary``: check a glossary."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from lacuna.cli.options import Json, LanguagesOption, ModelName, refuse_with_domain
from lacuna.cli.render import print_json, print_notes, print_table
from lacuna.errors import GlossaryError
from lacuna.glossaries.glossary_files import GlossaryFile, read_glossary
from lacuna.records import Languages

if TYPE_CHECKING:
    from lacuna.models import Model

# Rows of the table; JSON has all problems.
_MOST_SHOWN = 100


def check(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A glossary: .tsv, .csv or .tbx; see docs/glossaries.md.")
    ],
    languages: LanguagesOption = None,
    model: ModelName = None,
    domain: Annotated[Path | None, typer.Option(help="Folder of lacuna adapt, whose model is meant.")] = None,
    json: Json = False,
) -> None:
    """List everything that is wrong with a glossary, with line numbers. Exit code 2 if there are errors.

    With a model, a domain, or languages that the bundled model has, also find translations that the vocabulary of the
    model cannot write.

    Example: `lacuna glossary check terms.tsv`

    Example: `lacuna glossary check terms.tbx --languages de-en --json`
    """
    translating = _open_model(languages, model, domain)
    if languages is None and translating is not None:
        languages = translating.languages
    read = read_glossary(file, languages=languages, can_write=None if translating is None else translating.can_write)
    if json:
        print_json(_as_json(file, read, translating))
    else:
        _print_problems(file, read, translating)
    if read.errors:
        raise GlossaryError(
            f"{file}: {_count(len(read.errors), 'error')}; correct the lines above, then check it again"
        )


def _open_model(languages: Languages | None, name: str | None, domain: Path | None) -> Model | None:
    """Open the model whose vocabulary is checked; the bundled one if it has the direction."""
    if domain is not None:
        from lacuna.domain import open_domain

        refuse_with_domain(model=name, languages=languages)
        return open_domain(domain, device="cpu").model
    if name is None and languages is None:
        return None
    from lacuna.models import load_model

    if name is not None:
        return load_model(name, device="cpu", languages=languages)
    bundled = load_model(device="cpu")
    if languages is None or bundled.is_direction(languages):
        return bundled
    print_notes([f"no vocabulary was checked: the bundled model is not for {languages}; give --model or --domain"])
    return None


def _as_json(file: Path, read: GlossaryFile, model: Model | None) -> dict[str, object]:
    return {
        "file": str(file),
        "rows": read.rows,
        "terms": len(read.glossary),
        "model": None if model is None else model.name,
        "errors": len(read.errors),
        "warnings": len(read.warnings),
        "problems": [problem.as_json() for problem in read.problems],
    }


def _print_problems(file: Path, read: GlossaryFile, model: Model | None) -> None:
    shown = read.problems[:_MOST_SHOWN]
    if shown:
        rows = [(str(each.line or ""), each.severity, escape(each.source), escape(each.message)) for each in shown]
        print_table(str(file), ["line", "severity", "term", "problem"], rows)
    if len(shown) < len(read.problems):
        typer.echo(f"{len(shown)} of {len(read.problems):,} problems; --json has all")
    vocabulary = "" if model is None else f", vocabulary of {model.name} checked"
    typer.echo(
        f"{file}: {_count(read.rows, 'row')}, {_count(len(read.glossary), 'term')} without errors; "
        f"{_count(len(read.errors), 'error')}, {_count(len(read.warnings), 'warning')}{vocabulary}"
    )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number != 1 else ''}"
