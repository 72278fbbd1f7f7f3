"""Time of updating margins after a change, compared with measuring the changed store from scratch.

Some entries are added to a store or removed from it. The update starts from the margins of the store before, and is
timed between two measurements of the store after, in the same process with the same threads. Times are CPU times, so
that other load affects both alike. The margins are compared as well.

    python benchmarks/margin_update.py [STORE] [--entries 30000] [--dimension 128] [--share 0.01] [--max-margin 2048]

Without a store, keys are drawn at random around centers, with a share of known entries that varies by center.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.datastore import Store, open_store
from lacuna.datastore.columns import COLUMNS, pair_to_line, record_of, write_shard
from lacuna.datastore.manifest import MANIFEST, BuildSettings, CorpusRecord, Manifest, ModelRecord, write_record
from lacuna.margin import MeasuredEntries, measure_margin, update_margins
from lacuna.records import Origin, SentencePair

Table = tuple[NDArray[np.float16], NDArray[np.bool_]]  # keys, and whether each entry is known


def drawn(entries: int, dimension: int, rng: np.random.Generator) -> Table:
    """Draw keys around centers; the variance of later dimensions is smaller, as that of principal components."""
    scale = np.linspace(2, 0.1, dimension)
    centers = rng.normal(size=(max(2, entries // 50), dimension)) * scale
    home = rng.integers(len(centers), size=entries)
    keys = centers[home] + 0.5 * scale * rng.normal(size=(entries, dimension))
    share = np.clip(rng.normal(0.7, 0.3, size=len(centers)), 0, 1)
    return keys.astype(np.float16), rng.random(entries) < share[home]


def written(folder: Path, table: Table) -> Store:
    """Write a store with one sentence; columns that margins do not need are zero."""
    keys, known = table
    columns = {name: np.zeros(len(keys), dtype) for name, dtype in COLUMNS.items()} | {"known": known}
    shard = write_shard(folder, 0, keys, columns, [pair_to_line(SentencePair("", "", Origin("made-up", "1")))])
    np.save(folder / "mean.npy", keys.mean(axis=0, dtype=np.float64).astype(np.float32))
    manifest = Manifest(
        lacuna="0",
        entries=len(keys),
        sentences=1,
        skipped=0,
        dimension=keys.shape[1],
        vocabulary_size=10,
        model=ModelRecord(name="none", fingerprint="f" * 64, languages=None, eos_id=0),
        corpus=CorpusRecord(pairs=1, skipped=0, xxh3="", files=()),
        settings=BuildSettings(),
        mean=record_of(folder / "mean.npy"),
        shards=(shard,),
    )
    write_record(folder / MANIFEST, manifest)
    return open_store(folder)


def compare(before: MeasuredEntries, kept: NDArray[np.bool_], after: Store) -> dict[str, object]:
    """Update margins between two measurements from scratch."""
    seconds, margins = [], []
    for way in ("scratch", "update", "scratch"):
        (after.path / "margin" / "manifest.json").unlink(missing_ok=True)  # otherwise these margins would be used again
        clock = time.process_time()
        if way == "update":
            margins.append(update_margins(before, kept, after)[0])
        else:
            margins.append(measure_margin(after, before.max_margin).margins.values)
        seconds.append(time.process_time() - clock)
    scratch = (seconds[0] + seconds[2]) / 2
    return {
        "entries": after.entries,
        "changed": int(np.count_nonzero(~kept)) + after.entries - int(np.count_nonzero(kept)),
        "scratch seconds": round(scratch, 2),
        "update seconds": round(seconds[1], 2),
        "ratio": round(seconds[1] / scratch, 3),
        "changed margins": int(np.count_nonzero(margins[0][: kept.sum()] != before.margin[kept])),
        "different margins": int(np.count_nonzero(margins[0] != margins[1])),
    }


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path, nargs="?")
    parser.add_argument("--entries", type=int, default=30_000, help="entries to draw, or the first ones of the store")
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--share", type=float, default=0.01, help="share of the entries that is added or removed")
    parser.add_argument("--max-margin", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rng = np.random.default_rng(1)
    if arguments.store is None:
        keys, known = drawn(arguments.entries, arguments.dimension, rng)
    else:
        store = open_store(arguments.store)
        ids = np.arange(min(arguments.entries, store.entries))
        keys, known = store.keys.gather(ids), store.known[ids]
    few = rng.random(len(keys)) < arguments.share
    order = np.concatenate([np.flatnonzero(~few), np.flatnonzero(few)])
    keys, known, rest = keys[order], known[order], int(np.count_nonzero(~few))
    with tempfile.TemporaryDirectory() as folder:
        smaller = written(Path(folder) / "smaller", (keys[:rest], known[:rest]))
        larger = written(Path(folder) / "larger", (keys, known))
        report: dict[str, object] = {"known": float(known.mean()), "max_margin": arguments.max_margin}
        for name, before, kept, after in (
            ("added", smaller, np.ones(rest, np.bool_), larger),
            ("removed", larger, np.arange(len(keys)) < rest, smaller),
        ):
            start = MeasuredEntries.of(before, measure_margin(before, arguments.max_margin).margins)
            report[name] = compare(start, kept, after)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
