"""``lacuna glossary suggest``: propose a glossary from a memory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from lacuna.cli.options import Json, MemoryPath, ModelOptions, check_at_least_one, check_output
from lacuna.cli.render import print_json, print_table
from lacuna.errors import SettingError
from lacuna.glossaries.glossary import Glossary
from lacuna.glossaries.glossary_files import write_glossary
from lacuna.glossaries.suggestion import MIN_COUNT, Suggestion, suggest_terms
from lacuna.records import Languages


def suggest(
    memory: MemoryPath,
    system: ModelOptions,
    into: Annotated[Path | None, typer.Option(help="File for the proposals, .tsv; default: a table on stdout.")] = None,
    min_count: Annotated[
        int, typer.Option(help="Sentence pairs that must have the term with its translation.")
    ] = MIN_COUNT,
    most: Annotated[int, typer.Option(help="Maximum number of proposals.")] = 200,
    json: Json = False,
) -> None:
    """Propose terms that a memory translates consistently, and the model alone often gets wrong.

    The first ones would correct most. Read the file, delete what is no term, and correct the rest.

    Example: `lacuna glossary suggest it --into terms.tsv`, then `lacuna glossary check terms.tsv`
    """
    from lacuna.datastore import open_store

    check_at_least_one("--min-count", min_count)
    check_at_least_one("--most", most)
    _check_new(into)
    folder, model = system.load_for(memory)
    store = open_store(folder)
    store.check_model(model)
    languages = model.languages or store.manifest.model.languages
    if languages is None:
        raise SettingError(f"languages: {memory} does not say which it has; name them, such as de-en")
    suggestion = suggest_terms(store, Languages.parse(str(languages)), model.token_text, min_count=min_count, most=most)
    if into is not None:
        write_glossary(into, Glossary(proposal.as_term() for proposal in suggestion.proposals))
    if json:
        return print_json(_as_json(memory, into, suggestion))
    if into is None:
        names = ["source", "target", "count", "consistency", "model wrong"]
        rows = [
            (escape(each.source), escape(each.target), each.count, f"{each.consistency:.2f}", f"{each.model_wrong:.2f}")
            for each in suggestion.proposals
        ]
        print_table(str(memory), names, rows)
    repeated = f", {suggestion.repeated:,} more repeat one of them" if suggestion.repeated else ""
    written = "" if into is None else f"; written to {into}"
    typer.echo(f"{len(suggestion.proposals):,} proposals from {suggestion.pairs:,} sentence pairs{repeated}{written}")


def _check_new(into: Path | None) -> None:
    """Refuse a file that cannot be written, and one that exists, which someone may have edited."""
    check_output("--into", into)
    if into is None:
        return
    if into.suffix.lower() != ".tsv":
        raise SettingError(f"--into: got {into}; a glossary is written as .tsv: change the suffix")
    if into.exists():
        raise SettingError(f"--into: {into} exists, and someone may have edited it; name a new file")


def _as_json(memory: Path, into: Path | None, suggestion: Suggestion) -> dict[str, object]:
    return {
        "memory": str(memory),
        "into": None if into is None else str(into),
        "pairs": suggestion.pairs,
        "repeated": suggestion.repeated,
        "proposals": [proposal.as_json() for proposal in suggestion.proposals],
    }
