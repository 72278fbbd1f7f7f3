"""How much quicker margins are measured than by searching 2,049 neighbors of every entry with faiss and looking along.

The search is timed on a sample of the entries before and after each measurement, in the same process with the same
threads, and scaled; it gets whichever of two settings of faiss is quicker. Times are processor time, so that another
load weighs on both alike.

    python benchmarks/margin.py STORE [--threads 1] [--sample 1024]
    python benchmarks/margin.py STORE --check [--entries 30000]

``--check`` compares exact margins with margins computed in float64, of all entries of the store or of the first ones.
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
from lacuna.margin import Approximate, measure_margin, read_margins

MAX_MARGIN, FAST = 2048, 16


def linked(store: Store, folder: Path) -> Store:
    """Make a store beside the given one that shares its files, so that margins are not written into that."""
    folder.mkdir()
    for path in store.path.iterdir():
        if path.name not in ("margin", "index"):
            (folder / path.name).symlink_to(path.resolve())
    return open_store(folder)


def first_entries(store: Store, count: int, folder: Path) -> Store:
    """Write a store of the first entries of another."""
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
    """Read all keys, centered."""
    return np.concatenate([block.astype(np.float32) - store.mean for _, block in store.keys.blocks(65536)])


class Search:
    """The usual way: search the nearest entries, and look for the first unknown one."""

    def __init__(self, store: Store, sample: int) -> None:
        keys = all_keys(store)
        self._known, self._entries = store.known, len(keys)
        self._ids = np.sort(np.random.default_rng(1).choice(len(keys), size=min(sample, len(keys)), replace=False))
        self._queries = keys[self._ids]
        self._index = faiss.IndexFlatL2(keys.shape[1])
        self._index.add(keys)
        self._thresholds = (faiss.cvar.distance_compute_blas_threshold, 1)

    def seconds(self, neighbors: int) -> float:
        """Return the time for all entries."""
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
    """Time the three ways of measuring, each between two searches."""
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
        made = measure_margin(here, max_margin, approximate=approximate)
        seconds = time.process_time() - clock
        searching, alike = np.mean([before, [search.seconds(MAX_MARGIN), search.seconds(max_margin)]], axis=0).tolist()
        report[name] = {
            "seconds": round(seconds, 1),
            f"faiss k={MAX_MARGIN + 1}": round(searching, 1),
            "times as quick": round(searching / seconds, 2),
            f"times as quick as k={max_margin + 1}": round(alike / seconds, 2),
            **({} if made.manifest.agreement is None else {"agreement": made.manifest.agreement.model_dump()}),
        }
    return report


def true_margins(keys: NDArray[np.float16], known: NDArray[np.bool_], ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Compute margins in float64: distances by products, what is nearly equal by difference."""
    wide = keys.astype(np.float64)
    squares = (wide * wide).sum(axis=1)
    near = 1e-9 * float(squares.max())
    margins: list[int] = []
    for rows in np.array_split(ids, max(1, len(ids) // 256)):
        print(f"float64: {rows[0]:,} of {len(keys):,}", file=sys.stderr, flush=True)
        distances = squares[rows, None] + squares - 2 * wide[rows] @ wide.T
        for row, line in zip(rows.tolist(), distances, strict=True):
            line[row] = np.inf
            close = np.flatnonzero(np.abs(line - line[~known].min()) <= near)
            line[close] = ((wide[close] - wide[row]) ** 2).sum(axis=1)
            margins.append(int(np.count_nonzero(line[known] < line[~known].min())))
    return np.minimum(margins, MAX_MARGIN)


def check(store: Store, entries: int, folder: Path) -> dict[str, object]:
    """Count the margins that differ from those in float64."""
    small = first_entries(store, entries, folder / "first")
    measure_margin(small, MAX_MARGIN)
    ids = np.arange(small.entries)
    truth = true_margins(small.keys.gather(ids), small.known, ids)
    different = read_margins(small).values != truth
    (small.path / "margin" / "manifest.json").unlink()  # else the margins that are there would serve
    measure_margin(small, FAST)
    fast = read_margins(small).values != np.minimum(truth, FAST)
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
