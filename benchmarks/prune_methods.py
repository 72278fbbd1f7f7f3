r"""Methods of ``lacuna prune``, compared on dev at the same ratio, each with a store and an index of its own.

Adaptive kNN-MT is fitted to the first dev pairs for every pruned store, and the last ones are translated. Differences
from the whole memory and from PLAC are tested by paired bootstrap. A method may have settings.

    python benchmarks/prune_methods.py STORE DEV --model MODEL --languages fr-en [--ratios 0.25 0.4] \\
        [--methods plac:min_margin=4 distill distill:visits=corpus merge]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from lacuna.corpora import read_corpus
from lacuna.evaluation import compare_runs, evaluate_systems
from lacuna.fitting import DevSet, FitAdaptive, fit_combiner
from lacuna.memory import Memory, open_memory
from lacuna.models import load_model
from lacuna.pruning import Pruner, make_pruner, prune_store
from lacuna.records import Languages
from lacuna.translator import System

METHODS = ("plac:min_margin=4", "known", "random", "cluster", "merge", "distill", "distill:visits=corpus")


def read_pruner(words: str) -> Pruner:
    """Make the pruner of ``method`` or ``method:setting=value,...``."""
    method, _, settings = words.partition(":")
    pairs = (each.split("=", 1) for each in settings.split(",") if each)
    return make_pruner(method, **{name: _number(value) for name, value in pairs})


def _number(value: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def main() -> None:
    """Print one JSON object per method and ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("dev", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--languages", required=True)
    parser.add_argument("--ratios", type=float, nargs="+", default=[0.25, 0.4])
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument(
        "--translated", type=int, default=300, help="dev pairs to translate; the others are for fitting"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    given = parser.parse_args()
    pruners = {words: read_pruner(words) for words in given.methods}
    model = load_model(given.model, languages=Languages.parse(given.languages), mask_placeholders=False)
    dev = list(read_corpus(given.dev))
    fitted, translated = DevSet(dev[: -given.translated]), dev[-given.translated :]
    references, sources = [pair.target for pair in translated], [pair.source for pair in translated]

    def translate(memory: Memory, seed: int) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            fit = fit_combiner(FitAdaptive(), model, [memory], fitted, Path(folder) / "fit", seed=seed)
        return [result.text for result in System(model, [memory], fit.combiner).open().translate(sources)]

    def show(row: dict[str, object], name: str, runs: dict[str, list[list[str]]]) -> None:
        scores = [evaluate_systems(references, {name: texts}, samples=1)[0] for texts in runs[name]]
        row |= {
            part: round(float(np.mean([score.as_json()[part] for score in scores])), 2) for part in ("bleu", "chrf")
        }
        others = [other for other in ("whole", given.methods[0]) if other in runs and other != name]
        found = compare_runs(references, {each: runs[each] for each in (*others, name)})[name]
        for other in others:
            row[f"against {other}"] = [round(getattr(found[other], part), 2) for part in ("bleu", "low", "high")]
        print(json.dumps(row), flush=True)

    memory = open_memory(given.store)
    whole = [translate(memory, seed) for seed in given.seeds]
    show({"method": "whole", "entries": memory.store.entries}, "whole", {"whole": whole})
    for ratio in given.ratios:
        runs = {"whole": whole}
        for name, pruner in pruners.items():
            started, pruning, runs[name] = time.monotonic(), 0.0, []
            for seed in given.seeds:
                with tempfile.TemporaryDirectory() as folder:
                    report = prune_store(
                        memory.store, pruner, Path(folder) / "small", ratio=ratio, seed=seed, clamp=True
                    )
                    pruning += report.seconds
                    runs[name].append(translate(open_memory(Path(folder) / "small"), seed))
            row = {"ratio": ratio, "method": name, "dropped": round(report.ratio, 4)}
            show(row | {"pruning": round(pruning), "seconds": round(time.monotonic() - started)}, name, runs)


if __name__ == "__main__":
    main()
