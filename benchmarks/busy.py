"""Speed of every stage on an idle machine, and beside one and two busy processes.

Each stage runs on a small corpus with all threads and with one, while none, one and two other processes use a core
each. Prints seconds and two ratios: the speed beside busy processes as a share of the idle speed, and the speed with
all threads relative to one thread beside the same processes.

    python benchmarks/busy.py [--pairs 300] [--stages build,margin] [--threads 2] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from build import made_up_pairs
from lacuna.combiners import SavedCombiner
from lacuna.datastore import Store, build_store, open_store
from lacuna.errors import CombinerError
from lacuna.fitting import FitAdaptive, add_gate, calibrate, fit_combiner, tune
from lacuna.index import build_index, measure_recall
from lacuna.margin import measure_margin
from lacuna.memory import Memory, open_memory
from lacuna.models import load_model
from lacuna.models.training.finetuning import _copied, _recipe, encode_for, unfreeze
from lacuna.models.training.loop import TrainingLoop
from lacuna.models.training.settings import FinetuneSettings
from lacuna.progress import SILENT
from lacuna.pruning import Plac, prune_store
from lacuna.translator import System
from lacuna.workers import use_threads

BUSY = (0, 1, 2)
KIND = "IVF64,PQ32"
SPIN = "import numpy as n\na = n.ones((64, 64))\nwhile True: a = a @ a * 0 + 1"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep this many processes with one thread each busy with small products."""
    command = [sys.executable, "-c", SPIN]
    running = [subprocess.Popen(command, env=os.environ | ONE_THREAD) for _ in range(count)]
    try:
        if running:
            time.sleep(1.0)  # they have started
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


class Stages:
    """All stages on a corpus of made-up sentences; what later stages need is made beforehand.

    :param pairs: Sentence pairs in the memory; dev has a third as many.
    """

    def __init__(self, folder: Path, pairs: int) -> None:
        self._folder = folder
        self._model = load_model(None, device="cpu")
        everything = list(made_up_pairs(pairs + pairs // 3))
        self._train, self._dev = everything[:pairs], everything[pairs:]
        self._store: Store = build_store(self._model, self._train, folder / "store", cleaning=None)
        build_index(self._store, KIND)
        measure_margin(self._store)
        self._memory: Memory = open_memory(self._store.path)
        fitted = fit_combiner(FitAdaptive(k=4), self._model, [self._memory], self._dev, folder / "adaptive")
        self._combiner: SavedCombiner = fitted.combiner
        encoded = encode_for(self._model, self._dev, "dev", SILENT)
        tuned = _copied(self._model)
        unfreeze(tuned.hf)
        self._loop = TrainingLoop(_recipe(tuned, encoded, encoded, FinetuneSettings(steps=1)), folder / "loop")

    def all(self) -> dict[str, Callable[[Path], object]]:
        """Return the stages by name; each gets a new folder."""
        model, memories, dev = self._model, [self._memory], self._dev
        sources = [pair.source for pair in dev[:64]]
        plain, with_memory = System(model).open(), System(model, memories, self._combiner).open()
        return {
            "build": lambda folder: build_store(model, self._train, folder / "store", cleaning=None),
            "index": lambda folder: build_index(self._copy(folder), KIND),
            "recall": lambda folder: measure_recall(self._store, self._memory.index, 8),
            "margin": lambda folder: measure_margin(self._copy(folder)),
            "prune": lambda folder: prune_store(self._store, Plac(4), folder / "pruned", ratio=1.0, clamp=True),
            "tune": lambda folder: tune(model, memories, dev),
            "fit adaptive": lambda folder: fit_combiner(FitAdaptive(k=4), model, memories, dev, folder / "new"),
            "fit gate": self._fit_gate,
            "calibrate": lambda folder: calibrate(model, memories, dev, folder / "new"),
            "translate": lambda folder: plain.translate(sources),
            "translate, memory": lambda folder: with_memory.translate(sources),
            "finetune, dev": lambda folder: self._loop.dev_perplexity(),
        }

    def _copy(self, folder: Path) -> Store:
        """Copy the store without index and margins."""
        kept = shutil.ignore_patterns("index", "margin")
        return open_store(shutil.copytree(self._store.path, folder / "store", ignore=kept))

    def _fit_gate(self, folder: Path) -> None:
        combiner = replace(self._combiner, path=folder)
        try:
            add_gate(self._model, [self._memory], combiner, self._dev, translated=24)
        except CombinerError:  # no gate is good enough for made-up sentences
            return


def seconds_of(stage: Callable[[Path], object]) -> float:
    """Run a stage in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        stage(Path(folder))
        return time.perf_counter() - started


def measure(stages: dict[str, Callable[[Path], object]], threads: int) -> dict[str, dict[str, float]]:
    """Return for each stage the seconds by number of threads and of busy processes, such as ``2 threads, 1 busy``."""
    for stage in stages.values():
        use_threads(threads)
        seconds_of(stage)  # warm up
    found: dict[str, dict[str, float]] = {name: {} for name in stages}
    for busy in BUSY:
        with busy_processes(busy):
            for name, stage in stages.items():
                for count in (threads, 1):
                    use_threads(count)
                    found[name][f"{count} threads, {busy} busy"] = round(seconds_of(stage), 2)
    return found


def main() -> None:
    """Print a table, or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=240, help="sentence pairs in the memory")
    parser.add_argument("--stages", help="names separated by commas; default: all")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    use_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as folder:
        stages = Stages(Path(folder), arguments.pairs).all()
        wanted = arguments.stages.split(",") if arguments.stages else list(stages)
        found = measure({name: stages[name] for name in wanted}, arguments.threads)
    if arguments.json:
        return print(json.dumps(found, indent=2))
    print(f"seconds with {arguments.threads} threads (one thread); beside busy processes: share of the idle speed,")
    print("speed relative to one thread beside the same processes")
    print(f"{'stage':18} {'idle':>14} {'1 busy':>14} {'share':>6} {'rel.':>5} {'2 busy':>14} {'share':>6} {'rel.':>5}")
    for name, by in found.items():
        line = f"{name:18} "
        for busy in BUSY:
            mine, one = (by[f"{count} threads, {busy} busy"] for count in (arguments.threads, 1))
            line += f"{mine:6.2f} ({one:5.2f}) "
            if busy:
                line += f"{by[f'{arguments.threads} threads, 0 busy'] / mine:6.2f} {one / mine:5.2f} "
        print(line.rstrip(), flush=True)


if __name__ == "__main__":
    main()
