"""Speed of measuring margins, compared with a faiss search for 2,049 neighbors of every entry.

The search is timed on a sample of the entries before and after each measurement, in the same process with the same
threads, and scaled. It uses the faster of two settings of faiss. Times are CPU times, so that other load affects both
alike.

    python benchmarks/margin.py STORE [--threads 1] [--sample 1024]
    python benchmarks/margin.py STORE --check [--entries 30000]

``--check`` compares the exact margins of the first entries with margins computed in float64.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import faiss
import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.datastore import Store, open_store
from lacuna.datastore.columns import COLUMNS, pair_to_line, record_of, write_shard
from lacuna.datastore.manifest import MANIFEST, write_record
from lacuna.margin import Approximate, count_known, measure_margin

MAX_MARGIN, FAST = 2048, 16


def linked(store: Store, folder: Path) -> Store:
    """Return a copy of the store that links to its files, so that margins are not written into the store itself."""
    folder.mkdir()
    for path in store.path.iterdir():
        if path.name not in ("margin", "index"):
            (folder / path.name).symlink_to(path.resolve())
    return open_store(folder)


def first_entries(store: Store, count: int, folder: Path) -> Store:
    """Write a store with the first entries of another one."""
    ids = np.arange(min(count, store.entries))
    columns = {name: getattr(store, name)[ids] for name in COLUMNS}
    lines = [pair_to_line(store.sentences[number]) for number in range(int(columns["sentence"].max()) + 1)]
    keys = store.keys.gather(ids)
    shard = write_shard(folder, 0, keys, columns, lines)
    np.save(folder / "mean.npy", keys.mean(axis=0, dtype=np.float64).astype(np.float32))
    changes = {"entries": len(ids), "sentences": len(lines), "shards": (shard,), "mean": record_of(folder / "mean.npy")}
    write_record(folder / MANIFEST, store.manifest.model_copy(update=changes))
    return open_store(folder)


def all_keys(store: Store) -> NDArray[np.float32]:
    """Return all keys, centered."""
    return np.concatenate([block.astype(np.float32) - store.mean for _, block in store.keys.blocks(65536)])


class Search:
    """The baseline: search the nearest entries, then look for the first unknown one."""

    def __init__(self, store: Store, sample: int) -> None:
        keys = all_keys(store)
        self._known, self._entries = store.known, len(keys)
        self._ids = np.sort(np.random.default_rng(1).choice(len(keys), size=min(sample, len(keys)), replace=False))
        self._queries = keys[self._ids]
        self._index = faiss.IndexFlatL2(keys.shape[1])
        self._index.add(keys)
        self._thresholds = (faiss.cvar.distance_compute_blas_threshold, 1)

    def seconds(self, neighbors: int) -> float:
        """Return the CPU time for all entries."""
        times = []
        for threshold in self._thresholds:
            faiss.cvar.distance_compute_blas_threshold = threshold
            clock = time.process_time()
            _, found = self._index.search(self._queries, neighbors + 1)
            known = self._known[found] | (found == self._ids[:, None])
            np.where(known.all(axis=1), neighbors, known.argmin(axis=1))
            times.append(time.process_time() - clock)
        return min(times) * self._entries / len(self._ids)


def measure(store: Store, sample: int, folder: Path) -> dict[str, object]:
    """Time three measurements, each between two searches."""
    search = Search(store, sample)
    ways = {
        "exact": (MAX_MARGIN, None),
        f"up to {FAST}": (FAST, None),
        "approximate": (MAX_MARGIN, Approximate()),
    }
    report: dict[str, object] = {"entries": store.entries, "known": float(store.known.mean())}
    for name, (max_margin, approximate) in ways.items():
        here = linked(store, folder / name.replace(" ", "-"))
        before = [search.seconds(MAX_MARGIN), search.seconds(max_margin)]
        clock = time.process_time()
        agreement = measure_margin(here, max_margin, approximate=approximate).manifest.agreement
        seconds = time.process_time() - clock
        searching, alike = np.mean([before, [search.seconds(MAX_MARGIN), search.seconds(max_margin)]], axis=0).tolist()
        report[name] = {
            "seconds": round(seconds, 1),
            f"faiss k={MAX_MARGIN + 1}": round(searching, 1),
            "speedup": round(searching / seconds, 2),
            f"speedup over k={max_margin + 1}": round(alike / seconds, 2),
            **({} if agreement is None else {"agreement": agreement.model_dump()}),
        }
    return report


def true_margins(keys: NDArray[np.float16], known: NDArray[np.bool_], ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Compute margins in float64: distances by products, and nearly equal ones by difference."""
    wide = keys.astype(np.float64)
    squares = (wide * wide).sum(axis=1)
    near = 1e-9 * float(squares.max())
    margins: list[int] = []
    for rows in np.array_split(ids, max(1, len(ids) // 256)):
        print(f"float64: {rows[0]:,} of {len(keys):,}", file=sys.stderr, flush=True)
        distances = squares[rows, None] + squares - 2 * wide[rows] @ wide.T
        for row, line in zip(rows.tolist(), distances, strict=True):
            line[row] = np.inf  # leaves the entry itself out
            close = np.flatnonzero(np.abs(line - line[~known].min()) <= near)
            line[close] = ((wide[close] - wide[row]) ** 2).sum(axis=1)
            margins.append(int(count_known(line[None], known[None])[0]))
    return np.minimum(margins, MAX_MARGIN)


def check(store: Store, entries: int, folder: Path) -> dict[str, object]:
    """Count the margins that differ from those in float64."""
    small = first_entries(store, entries, folder / "first")
    measured = measure_margin(small, MAX_MARGIN).margins.values
    ids = np.arange(small.entries)
    truth = true_margins(small.keys.gather(ids), small.known, ids)
    different = measured != truth
    (small.path / "margin" / "manifest.json").unlink()  # otherwise these margins would be used again
    fast = measure_margin(small, FAST).margins.values != np.minimum(truth, FAST)
    return {
        "entries": small.entries,
        "differences": int(np.count_nonzero(different)),
        f"differences up to {FAST}": int(np.count_nonzero(fast)),
    }


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sample", type=int, default=1024, help="entries searched with faiss")
    parser.add_argument("--check", action="store_true", help="compare with float64 instead")
    parser.add_argument("--entries", type=int, default=30_000, help="entries to compare")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    faiss.omp_set_num_threads(arguments.threads)
    store = open_store(arguments.store)
    with tempfile.TemporaryDirectory() as folder:
        if arguments.check:
            report = check(store, arguments.entries, Path(folder))
        else:
            report = measure(store, arguments.sample, Path(folder))
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
