"""Alternatives to PLAC's random draw, compared on dev at the same ratio.

All of them drop known entries only. The memory is not rewritten: dropped entries are hidden from its index. For every
method, adaptive kNN-MT is fitted on the first half of dev, and the second half is translated. The differences from
PLAC are tested by paired bootstrap.

    python benchmarks/pruners.py STORE DEV --model MODEL --languages fr-en [--ratios 0.6 0.7] [--min-margin 4]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lacuna.corpora import read_corpus
from lacuna.datastore import Store
from lacuna.evaluation import compare_runs
from lacuna.fitting import DevSet, FitAdaptive, fit_combiner
from lacuna.index import FilteredIndex
from lacuna.margin import read_margins
from lacuna.memory import FolderMemory, Memory, open_memory
from lacuna.models import Model, load_model
from lacuna.progress import SILENT
from lacuna.pruning.pruned_store import StoreEntries
from lacuna.records import Languages, SentencePair
from lacuna.translator import System

Mask = NDArray[np.bool_]
# Returns one number per entry: known entries of the highest numbers are dropped.
Rank = Callable[[Store, Memory, Model, list[SentencePair], int], NDArray[np.float64]]
_COPIES, _NEAR = 4, 16


def _plac(least: int) -> Rank:
    """Rank candidates at random, and those below ``least`` after all others."""

    def rank(store: Store, memory: Memory, model: Model, dev: list[SentencePair], seed: int) -> NDArray[np.float64]:
        return (read_margins(store).values >= least) + _noise(store, seed)

    return rank


def _known(store: Store, memory: Memory, model: Model, dev: list[SentencePair], seed: int) -> NDArray[np.float64]:
    return _noise(store, seed)


def _highest(store: Store, memory: Memory, model: Model, dev: list[SentencePair], seed: int) -> NDArray[np.float64]:
    """Rank by margin."""
    return read_margins(store).values + _noise(store, seed)


def _probable(store: Store, memory: Memory, model: Model, dev: list[SentencePair], seed: int) -> NDArray[np.float64]:
    """Rank by the margin times the probability of the value."""
    return read_margins(store).values * np.exp(store.log_p_gold.astype(np.float64)) + 1e-6 * _noise(store, seed)


def _copies(store: Store, memory: Memory, model: Model, dev: list[SentencePair], seed: int) -> NDArray[np.float64]:
    """Rank last the entries that are among few near entries of the same value, and the others at random.

    Entries are visited in random order. An entry is kept while fewer than ``_COPIES`` of its ``_NEAR`` neighbors with
    its value have been kept before it.
    """
    values, first = store.values, 0
    blocks = []
    for ids in StoreEntries(store, SILENT).neighbors(_NEAR):
        same = (ids >= 0) & (values[ids] == values[first : first + len(ids), None])
        blocks.append(np.where(same, ids, -1))
        first += len(ids)
    near = np.concatenate(blocks)
    kept = np.zeros(store.entries + 1, np.bool_)  # the last is "no neighbor", never kept
    known = store.known
    kept[:-1] = ~known
    for entry in np.random.default_rng(seed).permutation(np.flatnonzero(known)):
        kept[entry] = kept[near[entry]].sum() < _COPIES
    return ~kept[:-1] + _noise(store, seed)


def _unused(store: Store, memory: Memory, model: Model, dev: list[SentencePair], seed: int) -> NDArray[np.float64]:
    """Rank last the entries that are neighbors of dev tokens, the most frequent ones at the very last."""
    uses = np.zeros(store.entries, np.int64)
    for found in DevSet(dev).retrieve(model, [memory], 8, lambda batch: batch.retrieval.entries):
        np.add.at(uses, found[found >= 0], 1)
    return -uses + _noise(store, seed)


RANKS: dict[str, Callable[[int], Rank]] = {
    "PLAC": _plac,
    "known": lambda least: _known,
    "highest margin first": lambda least: _highest,
    "margin times probability": lambda least: _probable,
    f"{_COPIES} copies among {_NEAR} neighbors": lambda least: _copies,
    "unused on dev": lambda least: _unused,
}


def _noise(store: Store, seed: int) -> NDArray[np.float64]:
    """Return random numbers from 0 to 0.5, which decide among equals."""
    return np.random.default_rng(seed).random(store.entries) / 2


def _keep(store: Store, rank: NDArray[np.float64], ratio: float) -> Mask:
    known = np.flatnonzero(store.known)
    keep = np.ones(store.entries, np.bool_)
    keep[known[np.argsort(-rank[known])[: round(ratio * store.entries)]]] = False
    return keep


def main() -> None:
    """Print one JSON object per method and ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("dev", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--languages", required=True)
    parser.add_argument("--ratios", type=float, nargs="+", default=[0.6, 0.7])
    parser.add_argument("--min-margin", type=int, default=4)
    parser.add_argument("--pairs", type=int, default=800, help="dev pairs, half of them translated")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    given = parser.parse_args()
    model = load_model(given.model, languages=Languages.parse(given.languages))
    memory = open_memory(given.store)
    store, dev = memory.store, list(read_corpus(given.dev))[: given.pairs]
    fitted, translated = dev[: len(dev) // 2], dev[len(dev) // 2 :]
    references, sources = [pair.target for pair in translated], [pair.source for pair in translated]

    def translate(index: FilteredIndex | None, seed: int) -> list[str]:
        pruned = memory if index is None else FolderMemory.of(memory.store, memory.name, index)
        with tempfile.TemporaryDirectory() as folder:
            fit = fit_combiner(FitAdaptive(), model, [pruned], fitted_set, Path(folder) / "fit", seed=seed)
        return [result.text for result in System(model, [pruned], fit.combiner).open().translate(sources)]

    fitted_set = DevSet(fitted)
    whole = [translate(None, seed) for seed in given.seeds]
    for ratio in given.ratios:
        runs = {"whole": whole}
        for name, of in RANKS.items():
            started = time.monotonic()
            rank = of(given.min_margin)
            keeps = [_keep(store, rank(store, memory, model, fitted, seed), ratio) for seed in given.seeds]
            runs[name] = [
                translate(FilteredIndex(memory.index, keep), seed)
                for keep, seed in zip(keeps, given.seeds, strict=True)
            ]
            found = compare_runs(references, {other: runs[other] for other in ("whole", "PLAC", name)})[name]
            row = {"ratio": ratio, "method": name, "dropped": round(float((~keeps[0]).mean()), 4)}
            row |= {
                f"against {other}": [round(getattr(found[other], part), 2) for part in ("bleu", "low", "high")]
                for other in ("whole", "PLAC")
            }
            print(json.dumps(row | {"seconds": round(time.monotonic() - started)}), flush=True)


if __name__ == "__main__":
    main()
