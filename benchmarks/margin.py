"""Speed of measuring margins, compared with a faiss search for 2,049 neighbors of every entry.

The search is timed on a sample of the entries before and after each measurement, in the same process with the same
threads, and scaled. It uses the faster of two settings of faiss. Times are CPU times, so that other load affects both
alike.

    python benchmarks/margin.py STORE [--threads 1] [--sample 1024]
    python benchmarks/margin.py STORE --check [--entries 30000]
    python benchmarks/margin.py STORE --sizes 50000 200000 1000000 [--way exact] [--tasks 40]

``--check`` compares the exact margins of the first entries with margins computed in float64. ``--sizes`` measures time,
peak memory and the exponent between sizes, each size in a process of its own. Sizes beyond the store are filled with
copies of its entries plus noise, a tenth of the standard deviation of each dimension. With ``--tasks``, passes over all
entries that have more tasks than this are scaled from so many of them.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.datastore import Store, open_store
from lacuna.datastore.columns import COLUMNS, pair_to_line, record_of, write_shard
from lacuna.datastore.manifest import MANIFEST, write_record
from lacuna.margin import Approximate, count_known, measure_margin, measurement
from lacuna.margin.radius import SelfJoin
from lacuna.margin.tasks import TaskRunner

MAX_MARGIN, FAST = 2048, 16
ROWS_IN_SHARD = 65_536


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


def noisy_copies(store: Store, count: int, folder: Path) -> Store:
    """Write a store with all entries of another one, and copies of them with noise."""
    rng = np.random.default_rng(1)
    deviation = store.keys.gather(np.arange(0, store.entries, 16)).astype(np.float32).std(axis=0) / 10
    line, shards = pair_to_line(store.sentences[0]), []
    total = np.zeros(store.dimension)
    for first in range(0, count, ROWS_IN_SHARD):
        places = np.arange(first, min(count, first + ROWS_IN_SHARD))
        ids = np.where(places < store.entries, places, rng.integers(store.entries, size=len(places)))
        noise = rng.standard_normal((len(ids), store.dimension), np.float32) * deviation
        noise[places < store.entries] = 0
        keys = (store.keys.gather(ids).astype(np.float32) + noise).astype(np.float16)
        total += keys.sum(axis=0, dtype=np.float64)
        columns = {name: getattr(store, name)[ids] for name in COLUMNS} | {"sentence": np.zeros(len(ids), np.uint32)}
        shards.append(write_shard(folder, len(shards), keys, columns, [line]))
    np.save(folder / "mean.npy", (total / count).astype(np.float32))
    changes = {
        "entries": count,
        "sentences": len(shards),
        "shards": tuple(shards),
        "mean": record_of(folder / "mean.npy"),
    }
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


class SampledTasks(TaskRunner):
    """Runs some of the tasks of passes over all entries, and counts the time that the others would take."""

    max_tasks, saved = sys.maxsize, 0.0

    def run(self, name: str, prepare: Any, result: Any) -> Any:  # noqa: ANN401 - those of TaskRunner
        """Run at most as many tasks as allowed, evenly spread; all of them in the comparison of near lists."""
        join = prepare()
        if not isinstance(join, SelfJoin):
            return super().run(name, lambda: join, result)
        tasks = range(len(join.sizes))
        chosen = tasks[:: max(1, math.ceil(len(tasks) / self.max_tasks))]
        clock = time.process_time()
        for entries, part in self.pool.map(join.run, chosen):
            result.add(entries, part)
        type(self).saved += (time.process_time() - clock) * (len(tasks) / max(1, len(chosen)) - 1)
        return result


def measure_size(store: Store, way: str, max_tasks: int | None, folder: Path) -> dict[str, object]:
    """Measure one store, and report the peak memory of this process."""
    SampledTasks.max_tasks = max_tasks or sys.maxsize
    measurement.TaskRunner = SampledTasks
    clock = time.process_time()
    settings = None if way == "exact" else Approximate()
    agreement = measure_margin(linked(store, folder / way), MAX_MARGIN, approximate=settings).manifest.agreement
    return {
        "entries": store.entries,
        "seconds": round(time.process_time() - clock + SampledTasks.saved, 1),
        "scaled": SampledTasks.saved > 0,
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        **({} if agreement is None or SampledTasks.saved else {"decisions": agreement.decisions}),
    }


def measure_sizes(store: Store, arguments: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Measure each size in a process of its own; the exponent is that from the size before."""
    report: list[dict[str, Any]] = []
    for size in arguments.sizes:
        into = folder / str(size)
        (first_entries if size <= store.entries else noisy_copies)(store, size, into)
        command = [sys.executable, __file__, str(into), "--one", "--way", arguments.way]
        command += ["--threads", str(arguments.threads)]
        command += [] if arguments.tasks is None else ["--tasks", str(arguments.tasks)]
        result = subprocess.run(command, check=True, capture_output=True, text=True)
        report.append(json.loads(result.stdout))
        if len(report) > 1:
            before, now = report[-2:]
            ratio = math.log(now["seconds"] / before["seconds"]) / math.log(now["entries"] / before["entries"])
            now["exponent"] = round(ratio, 2)
        print(report[-1], file=sys.stderr, flush=True)
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
    parser.add_argument("--sizes", type=int, nargs="+", help="measure stores of these sizes instead")
    parser.add_argument("--way", choices=["exact", "approximate"], default="exact", help="what --sizes measures")
    parser.add_argument("--tasks", type=int, help="most tasks of a pass that --sizes runs; its time is scaled")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    faiss.omp_set_num_threads(arguments.threads)
    store = open_store(arguments.store)
    report: object
    with tempfile.TemporaryDirectory() as folder:
        if arguments.sizes:
            report = measure_sizes(store, arguments, Path(folder))
        elif arguments.one:
            report = measure_size(store, arguments.way, arguments.tasks, Path(folder))
        elif arguments.check:
            report = check(store, arguments.entries, Path(folder))
        else:
            report = measure(store, arguments.sample, Path(folder))
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
