"""``lacuna reproduce``: every table of the paper for one domain, from one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lacuna.cli.options import Device, Json, Threads, use_threads
from lacuna.cli.render import BarProgress, print_json, print_table


def reproduce(
    file: Annotated[Path, typer.Argument(metavar="EXPERIMENT", help="An experiment file, as experiments/koran.yaml.")],
    into: Annotated[Path, typer.Option(help="Folder of steps, tables and experiment.json.")],
    data: Annotated[
        Path, typer.Option(envvar="LACUNA_DATA", help="Folder that the corpora are named relative to.")
    ] = Path("data"),
    device: Device = "auto",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Run an experiment: memory, margins, pruned memories, combiners, translations, tables, and the paper's claims.

    Every step stays on disk. Killed at any moment, the same command goes on; a changed setting repeats only what
    depends on it. Then: `lacuna report INTO`

    Example: `lacuna reproduce experiments/koran.yaml --data opus --into out/koran`
    """
    from lacuna.reproduction import read_experiment
    from lacuna.reproduction import reproduce as run

    experiment = read_experiment(file)
    use_threads(threads)
    progress = BarProgress()
    outcome = run(experiment, into, data=data, device=device, progress=progress, announce=_say)
    if json:
        return print_json(outcome.as_json())
    rows = [(claim.verdict, claim.claim, claim.figures) for claim in outcome.claims]
    print_table(f"{experiment.title}: the paper's claims", ["", "claim", "figures"], rows)
    done = f"{len(outcome.made)} of {len(outcome.steps)} steps done now, {outcome.seconds:,.0f} s in all"
    typer.echo(f"{len(outcome.tables)} tables in {into / 'tables'}; {done}. Next: lacuna report {into}")


def _say(step: str) -> None:
    typer.echo(f"step: {step}", err=True)
