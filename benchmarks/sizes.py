"""Cost of a memory's size: tokens per second and peak memory with 50,000, 500,000 and 5,000,000 entries.

    python benchmarks/sizes.py STORE --combiner FOLDER --test CORPUS [--model FOLDER]
                               [--entries 50000 500000 5000000] [--sentences 192] [--rounds 3] [--threads 2]

STORE provides real keys and tokens. A larger memory repeats them with a little noise on every key; a smaller one has
part of them. Each size is written to a temporary folder, indexed with ``--kind auto`` and measured in a separate
process: with the combiner, with its gate if it has one, and without a memory, in turns; the best round counts. Recall
is measured on the store's own keys. 5,000,000 entries with 256-dimensional keys take 6 GB of disk space.
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

from bench import measure, read_texts
from lacuna.combiners import load_combiner
from lacuna.datastore import BuildSettings, Store, open_store
from lacuna.datastore.building import finish
from lacuna.datastore.columns import pair_to_line, write_mean, write_shard
from lacuna.datastore.manifest import ShardRecord
from lacuna.index import build_index, measure_recall
from lacuna.memory import open_memory
from lacuna.models import load_model
from lacuna.workers import use_threads
from systems import gate_of, of_lacuna

NOISE = 0.05  # relative to the standard deviation of the keys
COLUMNS = ("values", "predictions", "known", "log_p_gold", "entropy", "sentence", "position")


def write_resized(store: Store, folder: Path, entries: int) -> None:
    """Write a store of another size from the entries of this one."""
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
    use_threads(args.threads)
    model = load_model(args.model)
    memory = open_memory(args.use)
    texts, _ = read_texts(args.test, args.sentences, model)
    combiner, gate = load_combiner(args.combiner).combiner, gate_of(args.combiner)
    systems = [of_lacuna("plain", model, int8=None), of_lacuna("adaptive", model, memory, combiner, int8=None)]
    if gate:
        systems.append(of_lacuna("with gate", model, memory, combiner, gate=gate, int8=None))
    for system in systems:
        system.run(texts[:32], 32)
    best = measure(systems, texts, 32, args.rounds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    recall = measure_recall(memory.store, memory.index, combiner.k, sample=200).results[0].recall
    plain = best["plain"]["speed"]
    content = {
        "entries": memory.store.entries,
        "index": memory.index.kind,
        "recall": round(recall, 3),
        "tokens/s": {name: round(each["speed"], 1) for name, each in best.items()},
        "of plain": {name: round(each["speed"] / plain, 3) for name, each in best.items()},
        "searching": round(best["adaptive"]["shares"]["search"], 3),
        "peak MB": round(peak),
    }
    print(json.dumps(content), flush=True)


def main() -> None:
    """Make each size and measure it in a separate process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--entries", type=int, nargs="+", default=[50_000, 500_000, 5_000_000])
    parser.add_argument("--combiner", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--model")
    parser.add_argument("--sentences", type=int, default=192)
    parser.add_argument("--rounds", type=int, default=3)
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
