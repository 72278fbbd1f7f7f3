"""``lacuna adapt``: everything that an adapted translator needs, in one folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuna.cli.commands import given, with_default
from lacuna.cli.options import CORPUS_HELP, GlossaryFile, Json, ModelOptions, Precision, use_threads
from lacuna.cli.render import BarProgress, print_json, print_table
from lacuna.progress import duration

if TYPE_CHECKING:
    from lacuna.domain import Domain

MAX_LOSS = "lacuna.fitting.pruning_choice:MAX_LOSS"


def adapt(
    corpora: Annotated[list[str], typer.Argument(metavar="CORPUS...", help=CORPUS_HELP)],
    system: ModelOptions,
    into: Annotated[Path, typer.Option(help="Folder for the domain.")],
    dev: Annotated[str | None, typer.Option(help="Dev corpus; default: some of the pairs.")] = None,
    test: Annotated[str | None, typer.Option(help="Test corpus; default: some of the pairs.")] = None,
    budget: Annotated[
        float | None,
        typer.Option(metavar="MINUTES", help="Time limit; leaves out optional steps first, then pairs."),
    ] = None,
    max_loss: Annotated[
        float | None,
        typer.Option(help=with_default("Largest share of what the memory adds that pruning may lose", MAX_LOSS)),
    ] = None,
    glossary: GlossaryFile = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 1,
    precision: Precision = "float32",
    json: Json = False,
) -> None:
    """Adapt a model to a domain in one command: clean, split, build, index, prune, fit, calibrate and score.

    If it is interrupted or killed, the same command resumes. The folder has a report, `report.html`.

    Example: `lacuna adapt memory.tmx --into it`, then `lacuna translate new.txt --domain it`
    """
    from lacuna.domain import adapt as make_domain

    use_threads(system.threads)
    domain = make_domain(
        corpora,
        into,
        dev=dev,
        test=test,
        model=system.model,
        languages=system.languages,
        budget=budget,
        glossary=glossary,
        seed=seed,
        **given(max_loss=max_loss),
        device=system.device,
        precision=precision,
        progress=BarProgress(shows_time=False),
    )
    if json:
        return print_json({"into": str(domain.path), **domain.manifest.model_dump(mode="json")})
    _print_domain(domain)


def _print_domain(domain: Domain) -> None:
    manifest = domain.manifest
    if manifest.scores:
        rows = [
            (
                score.name,
                f"{score.bleu:.2f}",
                f"{score.chrf:.2f}",
                "" if score.p_value is None else f"{score.p_value:.3f}",
            )
            for score in manifest.scores
        ]
        print_table(f"{manifest.pairs.test:,} test sentences", ["system", "BLEU", "chrF", "p"], rows)
    print_facts(domain)
    typer.echo(f"{domain.path}: done in {duration(sum(manifest.seconds.values()))}; see {domain.path / 'report.html'}")


def print_facts(domain: Domain) -> None:
    """Print what a domain consists of, and what was decided."""
    manifest = domain.manifest
    memory, pairs = manifest.memory, manifest.pairs
    dropped = f", {memory.pruned:.1%} dropped by PLAC" if memory.pruned else ""
    gate = (
        ""
        if manifest.combiner.searched is None
        else f", gate that searches at {manifest.combiner.searched:.0%} of the steps"
    )
    settings = ", ".join(f"{name} {value}" for name, value in manifest.combiner.settings.items())
    typer.echo(
        f"Memory: {memory.entries:,} entries of {pairs.train:,} pairs, {memory.known:.1%} known to the model{dropped}\n"
        f"Combiner: {manifest.combiner.kind} with {settings}{gate}"
    )
    for note in manifest.notes:
        typer.echo(f"- {note}")
