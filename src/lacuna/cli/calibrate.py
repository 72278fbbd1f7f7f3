"""``lacuna calibrate``: how probable it is that the model is right, learned from a dev set."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from lacuna.cli.options import Device, Json, LanguagesOption, MemoryPaths, ModelName, Threads, use_threads
from lacuna.cli.render import BarProgress, print_json, print_table
from lacuna.cli.using import open_memories
from lacuna.records import Languages


def calibrate(
    memory: MemoryPaths,
    dev: Annotated[str, typer.Option(help="Dev corpus, none of which is in the memories.")],
    into: Annotated[Path, typer.Option(help="Folder for the calibration.")],
    model: ModelName = None,
    pairs: Annotated[int, typer.Option(min=1, help="At most this many dev pairs.")] = 1000,
    languages: LanguagesOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the parts that are held out.")] = 1,
    device: Device = "auto",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Learn from a dev set how probable it is that the model is right, given the margin and its own probability.

    Example: `lacuna calibrate --memory it-store --dev dev.tsv --into it-calibration`
    """
    from lacuna.corpora import read_corpus
    from lacuna.errors import CalibrationError
    from lacuna.files import check_unused
    from lacuna.fitting import calibrate as fit
    from lacuna.models import load_model

    use_threads(threads)
    check_unused(into, CalibrationError)
    direction = Languages.parse(languages) if languages else None
    memories = open_memories(memory)
    chosen = list(islice(read_corpus(dev, languages=direction), pairs))
    opened = load_model(model, device=device, languages=direction)
    report = fit(opened, memories, chosen, into, seed=seed, progress=BarProgress())
    if json:
        return print_json(report.as_json())
    found = report.manifest
    rows = [(one.name, *(f"{x:.4f}" for x in (one.ece, one.brier, one.sentence_error))) for one in found.measured]
    print_table(
        f"{found.tokens:,} dev tokens in {found.sentences:,} sentences, each judged while held out; "
        f"the model is right at {found.right:.1%}",
        ["looks at", "ECE", "Brier", "sentence error"],
        rows,
    )
    typer.echo(f"{into}: written; it looks at both, and was fitted to all of them")
