"""``lacuna translate`` and ``lacuna tune``: using a memory, and choosing how much to listen to it."""

from __future__ import annotations

import json as json_format
import sys
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from lacuna.cli.options import (
    CombinerFolder,
    Device,
    Json,
    KnnWeight,
    LanguagesOption,
    MemoryPaths,
    ModelName,
    NeighborCount,
    OptionalMemoryPaths,
    Temperature,
    Threads,
    check_at_least_one,
    use_threads,
)
from lacuna.cli.render import BarProgress, print_json, print_table
from lacuna.cli.using import check_k, choose_combiner, open_gate, open_memories, read_lines
from lacuna.records import Languages


def translate(
    file: Annotated[Path | None, typer.Argument(help="One sentence per line; standard input without it.")] = None,
    model: ModelName = None,
    memory: OptionalMemoryPaths = None,
    combiner: CombinerFolder = None,
    k: NeighborCount = None,
    knn_weight: KnnWeight = None,
    temperature: Temperature = None,
    beam: Annotated[int, typer.Option(help="Beam width.")] = 5,
    length_penalty: Annotated[float, typer.Option(help="Power of the length that scores are divided by.")] = 1.0,
    gate: Annotated[
        bool, typer.Option("--gate", help="Search only where the combiner's gate says so; see lacuna fit --gate.")
    ] = False,
    int8: Annotated[bool, typer.Option("--int8", help="8-bit weights: quicker on a CPU, a little less exact.")] = False,
    batch_size: Annotated[int, typer.Option(help="Most sentences in a batch.")] = 32,
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
    from lacuna.translator import Translator

    use_threads(threads)
    check_at_least_one("--batch-size", batch_size)
    weighing = choose_combiner(combiner, {"k": k, "knn_weight": knn_weight, "temperature": temperature})
    settings = BeamSettings(beam=beam, length_penalty=length_penalty)
    direction = Languages.parse(languages) if languages else None
    lines = read_lines(file)
    memories = open_memories(memory or [])
    check_k(weighing.k, memories)
    opened = open_gate(combiner, memories) if gate else None
    loaded = load_model(model, device=device, languages=direction)
    translator = Translator(loaded, memories, weighing, settings, gate=opened, int8=int8)
    for result in translator.translate(lines, evidence=json, batch_size=batch_size, progress=BarProgress()):
        content = {"text": result.text, "score": result.score, "steps": [asdict(step) for step in result.steps]}
        sys.stdout.write((json_format.dumps(content, ensure_ascii=False) if json else result.text) + "\n")
    if opened is not None:
        count = translator.search_count
        typer.echo(f"searched at {count.searched:,} of {count.rows:,} steps", err=True)


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
    from lacuna.fitting import tune as find_settings
    from lacuna.models import load_model

    use_threads(threads)
    check_at_least_one("--pairs", pairs)
    direction = Languages.parse(languages) if languages else None
    memories = open_memories(memory)
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
