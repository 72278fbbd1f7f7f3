"""Options that several verbs share, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lacuna.errors import SettingError

ModelName = Annotated[str | None, typer.Option("--model", help="Model folder or hub name; the bundled one without it.")]
_MEMORY = typer.Option("--memory", help="Store folder; may be given several times.")
MemoryPaths = Annotated[list[str], _MEMORY]
OptionalMemoryPaths = Annotated[list[str] | None, _MEMORY]
CombinerFolder = Annotated[
    Path | None, typer.Option("--combiner", help="Folder of lacuna fit, instead of --k, --knn-weight, --temperature.")
]
NeighborCount = Annotated[int | None, typer.Option("--k", help="Neighbors per token (8).")]
KnnWeight = Annotated[
    float | None, typer.Option("--knn-weight", help="Share of the memory: 0 is the model alone (0.5).")
]
Temperature = Annotated[float | None, typer.Option("--temperature", help="Divides squared distances (10).")]
BeamWidth = Annotated[int | None, typer.Option("--beam", help="Beam width (5).")]
CalibrationFolder = Annotated[
    Path | None, typer.Option("--calibration", help="Folder of lacuna calibrate, for confidence.")
]
LanguagesOption = Annotated[str | None, typer.Option("--languages", help="Direction, as in de-en.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1, mps.")]
Threads = Annotated[int | None, typer.Option("--threads", help="CPU threads; default: all cores.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


def check_at_least_one(option: str, value: int) -> None:
    """Refuse a count of nothing."""
    if value < 1:
        raise SettingError(f"{option}: got {value}; allowed is 1 or more")


def use_threads(threads: int | None) -> None:
    """Set the number of CPU threads of torch and faiss, if one was given."""
    if threads is None:
        return
    check_at_least_one("--threads", threads)
    import torch

    from lacuna.index import use_threads as use_search_threads

    torch.set_num_threads(threads)
    use_search_threads(threads)
