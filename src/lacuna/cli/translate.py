"""``lacuna translate`` and ``lacuna tune``: using a memory, and choosing how much to listen to it."""

from __future__ import annotations

import json as json_format
import sys
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lacuna.cli.options import (
    Device,
    Json,
    LanguagesOption,
    MemoryPaths,
    ModelName,
    OptionalMemoryPaths,
    Threads,
    check_at_least_one,
    use_threads,
)
from lacuna.cli.render import BarProgress, print_json, print_table
from lacuna.errors import CorpusError, SettingError
from lacuna.records import Languages

if TYPE_CHECKING:
    from lacuna.combiners import Combiner
    from lacuna.translator import Memory


def translate(
    file: Annotated[Path | None, typer.Argument(help="One sentence per line; standard input without it.")] = None,
    model: ModelName = None,
    memory: OptionalMemoryPaths = None,
    combiner: Annotated[Path | None, typer.Option(help="Folder of lacuna fit, instead of the next three.")] = None,
    k: Annotated[int | None, typer.Option(help="Neighbors per token (8).")] = None,
    knn_weight: Annotated[float | None, typer.Option(help="Share of the memory: 0 is the model alone (0.5).")] = None,
    temperature: Annotated[float | None, typer.Option(help="Divides squared distances (10).")] = None,
    beam: Annotated[int, typer.Option(help="Beam width.")] = 5,
    length_penalty: Annotated[float, typer.Option(help="Power of the length that scores are divided by.")] = 1.0,
    batch_size: Annotated[int, typer.Option(help="Sentences at once.")] = 32,
    languages: LanguagesOption = None,
    device: Device = "auto",
    threads: Threads = None,
    json: Annotated[
        bool, typer.Option("--json", help="One JSON object per line, with the evidence of every token.")
    ] = False,
) -> None:
    """Translate lines of text, with or without memories.

    Example: `echo "Klicken Sie auf OK." | lacuna translate --memory it-store --k 8 --knn-weight 0.6`
    """
    from lacuna.decoding import BeamSettings
    from lacuna.models import load_model
    from lacuna.translator import Translator, open_memory

    use_threads(threads)
    check_at_least_one("--batch-size", batch_size)
    weighing = _combiner(combiner, {"k": k, "knn_weight": knn_weight, "temperature": temperature})
    settings = BeamSettings(beam=beam, length_penalty=length_penalty)
    direction = Languages.parse(languages) if languages else None
    lines = _read_lines(file)
    memories = [open_memory(path) for path in memory or []]
    _check_k(weighing.k, memories)
    translator = Translator(load_model(model, device=device, languages=direction), memories, weighing, settings)
    for result in translator.translate(lines, evidence=json, batch_size=batch_size, progress=BarProgress()):
        content = {"text": result.text, "score": result.score, "steps": [asdict(step) for step in result.steps]}
        sys.stdout.write((json_format.dumps(content, ensure_ascii=False) if json else result.text) + "\n")


def tune(
    dev: Annotated[str, typer.Argument(help="Dev corpus.")],
    memory: MemoryPaths,
    model: ModelName = None,
    languages: LanguagesOption = None,
    pairs: Annotated[int, typer.Option(help="At most this many dev pairs.")] = 2000,
    device: Device = "auto",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Find k, temperature and knn_weight on a dev set, in one pass over it.

    Example: `lacuna tune dev.tsv --memory it-store`
    """
    from lacuna.corpora import read_corpus
    from lacuna.models import load_model
    from lacuna.translator import open_memory
    from lacuna.translator import tune as find_settings

    use_threads(threads)
    check_at_least_one("--pairs", pairs)
    direction = Languages.parse(languages) if languages else None
    memories = [open_memory(path) for path in memory]
    chosen = list(islice(read_corpus(dev, languages=direction), pairs))
    trials = find_settings(
        load_model(model, device=device, languages=direction), memories, chosen, progress=BarProgress()
    )
    rows = [(t.combiner.k, t.combiner.temperature, t.combiner.knn_weight, round(t.perplexity, 4)) for t in trials]
    names = ["k", "temperature", "knn_weight", "perplexity"]
    if json:
        print_json(
            {
                "best": dict(zip(names, rows[0], strict=True)),
                "trials": [dict(zip(names, row, strict=True)) for row in rows],
            }
        )
    else:
        print_table("Best settings on dev", names, rows[:10])


def _combiner(folder: Path | None, settings: dict[str, Any]) -> Combiner:
    """Open a fitted combiner, or make a vanilla one from what was given."""
    from lacuna.combiners import Vanilla, load_combiner

    given = {name: value for name, value in settings.items() if value is not None}
    if folder is None:
        return Vanilla(**given)
    if given:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise SettingError(f"{names}: given beside --combiner, which has its own; leave one of them out")
    return load_combiner(folder)


def _check_k(k: int, memories: list[Memory]) -> None:
    """Refuse more neighbors than the memories have entries: a search would fill the other places with nothing."""
    entries = sum(memory.store.entries for memory in memories)
    if memories and k > entries:
        raise SettingError(f"k: got {k:,}, but there are only {entries:,} entries; allowed is 1 to {entries:,}")


def _read_lines(file: Path | None) -> list[str]:
    name = str(file) if file else "standard input"
    try:
        content = (file.read_bytes() if file else sys.stdin.buffer.read()).decode("utf-8")
    except OSError as error:
        raise CorpusError(
            f"{name}: cannot be read ({error.strerror}); name a text file with one sentence per line"
        ) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise CorpusError(f"{name}:{line}: not UTF-8; convert the file, for example with: iconv -t UTF-8") from error
    return [line.removesuffix("\r") for line in content.removesuffix("\n").split("\n")] if content else []
