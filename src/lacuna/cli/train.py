"""``lacuna train``: a translation model from scratch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuna.cli.options import Json, Threads, use_threads
from lacuna.cli.render import BarProgress, print_json, print_table
from lacuna.corpora import read_corpus
from lacuna.errors import SettingError
from lacuna.records import Languages, SentencePair

if TYPE_CHECKING:
    from lacuna.models.training import WeightedCorpus

# glibc gives large blocks back to the system at once and faults them in again at the next step; training makes
# and frees the same large tensors all the time. These must be set before the process starts.
MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "4294967296",
    "MALLOC_TOP_PAD_": "67108864",
}


def train(
    corpora: Annotated[
        list[str], typer.Argument(metavar="CORPUS...", help="Files or prefixes; CORPUS@2 is seen twice.")
    ],
    languages: Annotated[str, typer.Option(help="Direction, as in de-en.")],
    into: Annotated[Path, typer.Option(help="Folder of the model, and of the run while it lasts.")],
    hours: Annotated[float | None, typer.Option(help="Time budget; the learning rate's decay is fitted to it.")] = None,
    steps: Annotated[
        int | None, typer.Option(help="Number of steps, instead of --hours; repeatable bit for bit.")
    ] = None,
    dev: Annotated[
        list[str] | None, typer.Option(help="Dev corpus; without it some training pairs are held out.")
    ] = None,
    go_on: Annotated[bool, typer.Option("--continue", help="Train the finished model in --into further.")] = False,
    start_from: Annotated[Path | None, typer.Option(help="Start from this model's weights, not at random.")] = None,
    tokenization: Annotated[
        str | None, typer.Option(help="sentencepiece (default), or bpe: Moses or jieba, then subword-nmt.")
    ] = None,
    vocabularies: Annotated[
        str | None, typer.Option(help="joint (default), or separate for source and target; only with bpe.")
    ] = None,
    settings: Annotated[Path | None, typer.Option(help="JSON file with further settings (docs/train.md).")] = None,
    seed: Annotated[int, typer.Option(help="Seed of weights, order and vocabulary sample.")] = 1,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Train a small Transformer from scratch and save it as a Hugging Face Marian folder.

    Killed at any moment, the same command goes on where it was.

    Example: `lacuna train general.tsv.xz news.tsv@3 --languages de-en --into model --hours 2.5`
    """
    _restart_with_malloc_settings()
    from lacuna.models.training import train_model
    from lacuna.models.training.settings import read_settings

    use_threads(os.cpu_count() if threads is None else threads)
    direction = Languages.parse(languages)
    chosen = read_settings(
        settings, hours=hours, steps=steps, seed=seed, tokenization=tokenization, vocabularies=vocabularies
    )
    report = train_model(
        [_weighted(text, direction) for text in corpora],
        direction,
        chosen,
        into,
        dev=_reader(dev, direction) if dev else None,
        go_on=go_on,
        start_from=start_from,
        progress=BarProgress(),
    )
    if json:
        print_json(report.as_json())
    else:
        print_table(f"Trained {into}", ["", ""], [(key, str(value)) for key, value in report.as_json().items()])


def _weighted(text: str, languages: Languages) -> WeightedCorpus:
    """Read ``CORPUS`` or ``CORPUS@WEIGHT``."""
    path, at, weight = text.rpartition("@")
    if not at or Path(text).exists():
        path, weight = text, "1"
    try:
        number = float(weight)
    except ValueError:
        number = -1.0
    if not 0 < number < 1000:
        raise SettingError(f"{text}: got weight {weight!r}; allowed is a number above 0, as in {path}@2")
    from lacuna.models.training import WeightedCorpus

    return WeightedCorpus(path, _reader([path], languages), number)


def _reader(paths: list[str], languages: Languages) -> Callable[[], Iterator[SentencePair]]:
    return lambda: chain.from_iterable(read_corpus(path, languages=languages) for path in paths)


def _restart_with_malloc_settings() -> None:
    """Start this very command again with the allocator set up, unless it is or the system has no glibc."""
    if sys.platform != "linux" or any(name in os.environ for name in MALLOC):
        return
    os.execve(  # noqa: S606 - our own command, no shell
        sys.executable, [sys.executable, "-m", "lacuna", *sys.argv[1:]], os.environ | MALLOC
    )
