"""Time and peak memory of pruning a large synthetic store, in a new process.

Keys, columns and margins are random and similar to those of a real store. The store is in a temporary folder, which is
removed at the end. 5,000,000 entries with 256-dimensional keys take 2.7 GB on disk, plus the pruned store.

    python benchmarks/prune.py [--entries 5000000] [--dimension 256] [--method plac] [--ratio 0.45] [--kind none]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore import BuildSettings, open_store
from lacuna.datastore.building import finish
from lacuna.datastore.columns import pair_to_line, write_mean, write_shard
from lacuna.datastore.manifest import CorpusRecord, Manifest, ModelRecord, ShardRecord
from lacuna.margin.storage import write_margins
from lacuna.pruning import make_pruner, prune_store
from lacuna.records import Origin, SentencePair
from lacuna.version import __version__

VOCABULARY, EOS, LENGTH = 32_000, 0, 25


def made_up_columns(sentences: int, first: int, rng: np.random.Generator) -> dict[str, NDArray[np.generic]]:
    """Make sentences of one length with frequent and rare tokens, 70 % of them known."""
    rows = sentences * LENGTH
    position = np.tile(np.arange(LENGTH), sentences)
    values = np.minimum(rng.zipf(1.3, rows), VOCABULARY - 1)
    values[position == LENGTH - 1] = EOS
    known = rng.random(rows) < 0.7
    return {
        "values": values,
        "predictions": np.where(known, values, (values + 1) % VOCABULARY),
        "known": known,
        "log_p_gold": -rng.exponential(np.where(known, 0.3, 3.0)),
        "entropy": rng.exponential(1.0, rows),
        "sentence": np.repeat(np.arange(first, first + sentences), LENGTH),
        "position": position,
    }


def write_made_up_store(folder: Path, entries: int, dimension: int) -> None:
    """Write a store shard by shard, and its margins."""
    rng, settings, shards = np.random.default_rng(1), BuildSettings(), list[ShardRecord]()
    sentences, per_shard = entries // LENGTH, settings.shard_rows // LENGTH
    for number, first in enumerate(range(0, sentences, per_shard)):
        count = min(per_shard, sentences - first)
        keys = rng.integers(-128, 128, (count * LENGTH, dimension), dtype=np.int8).astype(np.float16)
        lines = [
            pair_to_line(SentencePair(f"source {n}", f"target {n}", Origin("made-up", str(n + 1))))
            for n in range(first, first + count)
        ]
        shards.append(write_shard(folder, number, keys, made_up_columns(count, first, rng), lines))
    manifest = Manifest(
        lacuna=__version__,
        entries=sentences * LENGTH,
        sentences=sentences,
        skipped=0,
        dimension=dimension,
        vocabulary_size=VOCABULARY,
        model=ModelRecord(name="made-up", fingerprint="0" * 64, languages=None, eos_id=EOS),
        corpus=CorpusRecord(pairs=sentences, skipped=0, xxh3="", files=("made-up",)),
        settings=settings,
        mean=write_mean(folder, shards, dimension),
        shards=tuple(shards),
    )
    finish(folder, manifest)
    margins = np.minimum(rng.zipf(1.1, sentences * LENGTH), 2048).astype(np.uint16) - 1
    write_margins(open_store(folder), margins, max_margin=2048)


def prune_once(arguments: argparse.Namespace) -> None:
    """Prune in this process and print one JSON object with the peak memory."""
    into = arguments.prune_once.with_name("pruned")
    wall, cpu = time.monotonic(), time.process_time()
    report = prune_store(
        open_store(arguments.prune_once),
        make_pruner(arguments.method),
        into,
        ratio=None if arguments.method == "all_known" else arguments.ratio,
        index=None if arguments.kind == "none" else arguments.kind,
    )
    content = {
        "method": arguments.method,
        "dimension": arguments.dimension,
        "entries": report.entries,
        "dropped": report.dropped,
        "seconds": round(time.monotonic() - wall, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "peak_megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    print(json.dumps(content, indent=2))


def main() -> None:
    """Make the store and prune it in a new process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=5_000_000)
    parser.add_argument("--dimension", type=int, default=256)
    parser.add_argument("--method", default="plac")
    parser.add_argument("--ratio", type=float, default=0.45)
    parser.add_argument("--kind", default="none", help="index of the pruned store; none for no index")
    parser.add_argument("--prune-once", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.prune_once is not None:
        return prune_once(arguments)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        write_made_up_store(store, arguments.entries, arguments.dimension)
        subprocess.run([sys.executable, __file__, *sys.argv[1:], "--prune-once", str(store)], check=True)


if __name__ == "__main__":
    main()
