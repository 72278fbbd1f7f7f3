"""What a memory's size costs: tokens per second and memory with 50,000, 500,000 and 5,000,000 entries.

    python benchmarks/sizes.py STORE [--entries 50000 500000 5000000] [--sentences 64] [--threads 2]

STORE gives real keys and tokens; a larger memory repeats them with a little noise on every key, a smaller one has a
part of them. Each size is made in a temporary folder, indexed with ``--kind auto`` and used in a process of its own.
5,000,000 entries of 256 numbers take 6 GB on disk for a while.
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
import torch

from bench import make_up
from lacuna.combiners import Vanilla
from lacuna.datastore import BuildSettings, Store, open_store
from lacuna.datastore.columns import write_mean, write_shard
from lacuna.datastore.manifest import ShardRecord
from lacuna.datastore.resuming import finish
from lacuna.datastore.sentences import pair_to_line
from lacuna.index import build_index, measure_recall
from lacuna.index.faiss import use_threads
from lacuna.models import load_model
from lacuna.translator import Translator, open_memory

NOISE = 0.05  # of the spread of the keys
COLUMNS = ("values", "predictions", "known", "log_p_gold", "entropy", "sentence", "position")


def write_resized(store: Store, folder: Path, entries: int) -> None:
    """Write a store of another size, made of this one's entries."""
    rng, rows, shards = np.random.default_rng(1), BuildSettings().shard_rows, list[ShardRecord]()
    spread = float(store.keys.gather(np.arange(min(5000, store.entries))).astype(np.float32).std())
    lines = [pair_to_line(store.sentences[number]) for number in range(store.manifest.sentences)]
    for number, first in enumerate(range(0, entries, rows)):
        chosen = np.arange(first, min(first + rows, entries)) % store.entries
        keys = store.keys.gather(chosen).astype(np.float32)
        if first >= store.entries:
            keys += rng.normal(0, NOISE * spread, keys.shape).astype(np.float32)
        columns = {name: np.asarray(getattr(store, name))[chosen] for name in COLUMNS}
        shards.append(write_shard(folder, number, keys.astype(np.float16), columns, lines if number == 0 else []))
    mean = write_mean(folder, shards, store.dimension)
    finish(folder, store.manifest.model_copy(update={"entries": entries, "shards": tuple(shards), "mean": mean}))


def use_once(args: argparse.Namespace) -> None:
    """Translate with a memory in this process, and print one JSON object."""
    torch.set_num_threads(args.threads)
    use_threads(args.threads)
    model = load_model()
    memory = open_memory(args.use)
    texts = make_up("de", args.sentences)
    speeds = {}
    for name, translator in (
        ("plain", Translator(model)),
        ("memory", Translator(model, [memory], Vanilla(k=8, knn_weight=0.6, temperature=30.0))),
    ):
        translator.translate(texts[:8])
        started = time.perf_counter()
        speeds[name] = sum(result.tokens for result in translator.translate(texts)) / (time.perf_counter() - started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    recall = measure_recall(memory.store, memory.index, 8, sample=200).results[0].recall
    content = {
        "entries": memory.store.entries,
        "index": memory.index.kind,
        "recall at 8": round(recall, 3),
        "plain tokens/s": round(speeds["plain"], 1),
        "tokens/s": round(speeds["memory"], 1),
        "of plain": round(speeds["memory"] / speeds["plain"], 3),
        "peak MB": round(peak),
    }
    print(json.dumps(content), flush=True)


def main() -> None:
    """Make each size, and use it in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--entries", type=int, nargs="+", default=[50_000, 500_000, 5_000_000])
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--use", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.use:
        return use_once(args)
    use_threads(args.threads)
    for entries in args.entries:
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "store"
            write_resized(open_store(args.store), made, entries)
            started = time.perf_counter()
            build_index(open_store(made))
            print(f"{entries:,} entries: index made in {time.perf_counter() - started:.1f} s", flush=True)
            subprocess.run([sys.executable, *sys.argv, "--use", str(made)], check=True)


if __name__ == "__main__":
    main()
