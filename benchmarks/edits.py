"""Speed of edits and of an edited memory, on a copy of a store.

Measures the time of adding, replacing and forgetting one sentence, until it is on disk and until a search finds it, in
a process that keeps the memory open; then the translation speed with 1, 10 and 50 small segments, and after compaction.

    python benchmarks/edits.py STORE --test TEST --combiner COMBINER --languages de-en [--model MODEL] [--sentences 128]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from lacuna.combiners import Combiner, load_combiner
from lacuna.corpora import read_corpus
from lacuna.memory import Memory, Selection, compact_memory, open_memory
from lacuna.models import Model, load_model
from lacuna.records import Languages
from lacuna.translator import System

ROUNDS = 5


def speed(model: Model, memory: Memory, combiner: Combiner, sources: list[str]) -> float:
    """Return tokens per second, the best of three runs."""
    translator, best = System(model, [memory], combiner).open(), 0.0
    for _ in range(3):
        started = time.perf_counter()
        tokens = sum(result.tokens for result in translator.translate(sources))
        best = max(best, tokens / (time.perf_counter() - started))
    return round(best, 1)


def show(**numbers: object) -> None:
    """Print one line of JSON."""
    print(json.dumps(numbers), flush=True)


def main() -> None:
    """Print one JSON object per measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--test", required=True)
    parser.add_argument("--combiner", type=Path, required=True)
    parser.add_argument("--languages", required=True)
    parser.add_argument("--model")
    parser.add_argument("--sentences", type=int, default=128)
    given = parser.parse_args()
    languages = Languages.parse(given.languages)
    model, combiner = load_model(given.model, languages=languages), load_combiner(given.combiner)
    pairs = list(read_corpus(given.test, languages=languages))
    sources = [pair.source for pair in pairs[: given.sentences]]
    new = iter(pairs[given.sentences :])
    with tempfile.TemporaryDirectory(dir=given.store.parent) as folder:
        path = Path(folder) / "memory"
        shutil.copytree(given.store, path, copy_function=os.link)  # files of a store are never changed
        memory = open_memory(path)
        show(entries=memory.entries, segments=1, tokens_per_second=speed(model, memory, combiner, sources))
        memory.add([next(new)], model, cleaning=None, merge=False)  # hashes all sentences
        memory = memory.latest()
        for verb in ("add", "replace", "forget"):
            on_disk: list[float] = []
            found: list[float] = []
            for _ in range(ROUNDS):
                started = time.perf_counter()
                last = len(memory.sentences) - 1
                if verb == "add":
                    memory.add([next(new)], model, cleaning=None, merge=False)
                elif verb == "replace":
                    memory.replace(last, next(new).target, model)
                else:
                    memory.forget(Selection(sentences=(len(found),)))
                on_disk.append(time.perf_counter() - started)
                memory = memory.latest()
                memory.search(np.zeros((1, memory.dimension), np.float32), 8)
                found.append(time.perf_counter() - started)
            show(edit=verb, on_disk_ms=round(1000 * median(on_disk)), found_ms=round(1000 * median(found)))
        for segments in (10, 50):
            while len(memory.store.segments or ()) < segments:
                memory.add([next(new)], model, cleaning=None, merge=False)
                memory = memory.latest()
            show(segments=segments, tokens_per_second=speed(model, memory, combiner, sources))
        started = time.perf_counter()
        compact_memory(path)
        seconds = round(time.perf_counter() - started, 1)
        memory = open_memory(path)
        show(compacted_in_seconds=seconds, segments=1, tokens_per_second=speed(model, memory, combiner, sources))


if __name__ == "__main__":
    main()
