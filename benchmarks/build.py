"""Speed of building a store relative to the forward pass alone, and peak memory for two corpus sizes.

The forward pass runs the same batches through encoder, decoder and output projection, with as many workers, and stores
nothing. Building reads pairs and writes a store. Both are measured in turn on parts of the corpus, by the clock
and in processor time; other load affects only the former.

    python benchmarks/build.py [CORPUS] [--model MODEL] [--languages de-en] [--pairs 2000] [--threads 2]
                               [--precision float32|bfloat16]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from lacuna.corpora import clean, read_corpus
from lacuna.datastore import BuildSettings, build_store
from lacuna.datastore.windows import CorpusDigest, Window, cut_windows, make_batches
from lacuna.models import Model, load_model
from lacuna.records import Languages, Origin, SentencePair
from lacuna.workers import WorkerPool, use_threads

# Parts of the corpus, which both sides process in turn.
PARTS = 2

WORDS = [
    "der",
    "Hund",
    "sieht",
    "grün",
    "und",
    "nicht",
    "haben",
    "heute",
    "einen",
    "Brief",
    "über",
    "Europa",
    "geschrieben",
]


def made_up_pairs(count: int) -> Iterator[SentencePair]:
    """Draw sentences of random words, with lengths distributed as in real text."""
    rng = np.random.default_rng(1)
    for place in range(count):
        words = [" ".join(rng.choice(WORDS, size=int(rng.gamma(3.0, 6.0)) + 1)) for _ in range(2)]
        yield SentencePair(*words, Origin("made-up", str(place + 1)))


def pairs_of(arguments: argparse.Namespace, count: int) -> Iterator[SentencePair]:
    """Return the first pairs of the corpus, or made-up ones."""
    if arguments.corpus is None:
        return made_up_pairs(count)
    languages = Languages.parse(arguments.languages) if arguments.languages else None
    return islice(clean(read_corpus(arguments.corpus, languages=languages)), count)


def load(arguments: argparse.Namespace) -> Model:
    """Load the model on the CPU."""
    use_threads(arguments.threads)
    languages = Languages.parse(arguments.languages) if arguments.languages else None
    return load_model(arguments.model, device="cpu", languages=languages, precision=arguments.precision)


def bare_batch(model: Model, window: Window, batch: list[int]) -> None:
    """Run the model over a batch."""
    chosen = [window.sentences[number] for number in batch]
    model.teacher_force([pair.source for pair in chosen], [pair.target for pair in chosen])


def bare_pass(model: Model, windows: list[Window], batch_tokens: int) -> int:
    """Run the forward pass with all workers, and return the number of tokens."""
    tasks = ((window, batch) for window in windows for batch in make_batches(window.sentences, batch_tokens))
    for _ in WorkerPool.of_process().map(lambda task: bare_batch(model, *task), tasks):
        pass
    return sum(window.rows for window in windows)


def measure_speed(arguments: argparse.Namespace) -> dict[str, float]:
    """Return tokens per second of both; for building, tokenizing and writing count."""
    model = load(arguments)
    assert model.fingerprint  # computed once per process, however large the corpus
    settings = BuildSettings(batch_tokens=arguments.batch_tokens)
    pairs = list(pairs_of(arguments, arguments.pairs))
    size = -(-len(pairs) // PARTS)
    spent, rows = {"bare": np.zeros(2), "build": np.zeros(2)}, 0
    for number in range(PARTS):
        part = pairs[number * size : (number + 1) * size]
        windows = list(cut_windows(part, model, CorpusDigest(), settings))
        if number == 0:
            bare_pass(model, windows, settings.batch_tokens)  # warm up
        for turn in ("bare", "build") if number % 2 else ("build", "bare"):
            with tempfile.TemporaryDirectory() as folder:
                clock = np.array([time.perf_counter(), time.process_time()])
                if turn == "bare":
                    rows += bare_pass(model, windows, settings.batch_tokens)
                else:
                    build_store(model, part, Path(folder) / "store", cleaning=None, **settings.model_dump())
                spent[turn] += np.array([time.perf_counter(), time.process_time()]) - clock
    return {
        "tokens": rows,
        "bare_tokens_per_second": rows / spent["bare"][0],
        "build_tokens_per_second": rows / spent["build"][0],
        "ratio_by_clock": spent["bare"][0] / spent["build"][0],
        "ratio_of_processor_time": spent["bare"][1] / spent["build"][1],
    }


def build_once(arguments: argparse.Namespace) -> None:
    """Build a store and print the peak memory of this process in megabytes."""
    model = load(arguments)
    with tempfile.TemporaryDirectory() as folder:
        pairs = pairs_of(arguments, arguments.build_once)
        settings = {"batch_tokens": arguments.batch_tokens, "shard_rows": 8192}
        build_store(model, pairs, Path(folder) / "store", cleaning=None, **settings)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def peak_memory(pairs: int) -> float:
    """Measure in a separate process."""
    command = [sys.executable, __file__, *sys.argv[1:], "--build-once", str(pairs)]
    return float(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="?", help="as for lacuna build; default: made-up sentences")
    parser.add_argument("--model", help="folder or hub name; default: the bundled model")
    parser.add_argument("--languages")
    parser.add_argument("--pairs", type=int, default=2000, help="pairs for the speed; memory takes this and four times")
    parser.add_argument("--batch-tokens", type=int, default=BuildSettings().batch_tokens)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--precision", default="float32", help="as for lacuna build: float32 or bfloat16")
    parser.add_argument("--build-once", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.build_once is not None:
        return build_once(arguments)
    report = measure_speed(arguments)
    report |= {f"peak_megabytes_{times}n": peak_memory(arguments.pairs * times) for times in (1, 4)}
    print(json.dumps({name: round(value, 3) for name, value in report.items()}, indent=2))


if __name__ == "__main__":
    main()
