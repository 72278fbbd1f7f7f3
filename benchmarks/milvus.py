"""Milvus beside the local indexes: the same translations, recall, speed; and a large memory.

Comparing all entries with every query is slow in Milvus: use a small store with ``--kinds FLAT``, and ``--timed 0``.

``python benchmarks/milvus.py STORE --uri http://localhost:19530 --test CORPUS [--combiner FOLDER]`` publishes a copy of
a store with FLAT and with HNSW. It counts the translations that are those of exact search, and measures tokens per
second as a share of those with the local faiss index, in turns, at batch 1 and 32.

``... --entries 5000000`` fills a collection with keys near those of the store and measures filling, indexing, loading,
searching and the memory of the server process.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from lacuna.combiners import Vanilla, load_combiner
from lacuna.corpora import read_corpus
from lacuna.datastore import Store, open_store
from lacuna.index import ExactIndex, FaissIndex, SearchSettings, measure_recall, open_index
from lacuna.index.faiss import make_index
from lacuna.index.kinds import IndexKind
from lacuna.memory import FolderMemory, Memory, MilvusMemory, open_memory
from lacuna.memory.publication import publish_store
from lacuna.milvus import Collection, CollectionInfo, CollectionKind, MilvusAddress
from lacuna.milvus.collection import EntryRows
from lacuna.milvus.connection import Connection
from lacuna.models import load_model
from lacuna.records import Languages
from lacuna.translator import System, Translator


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--uri", required=True)
    parser.add_argument("--test")
    parser.add_argument("--combiner", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--languages", type=Languages.parse)
    parser.add_argument("--sentences", type=int, default=300)
    parser.add_argument("--timed", type=int, default=64, help="sentences of a timed run at batch 32; a quarter at 1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", default=["FLAT", "HNSW"])
    parser.add_argument("--entries", type=int)
    parser.add_argument("--kind", default="milvus:IVF_SQ8", help="index of the large collection")
    options = parser.parse_args()
    report = large(options) if options.entries else compare(options)
    print(json.dumps(report, indent=1))


def compare(options: argparse.Namespace) -> dict[str, Any]:
    """Compare translations and speed of the same memory in several indexes."""
    store = open_store(options.store)
    texts = [pair.source for pair in read_corpus(options.test, languages=options.languages)][: options.sentences]
    model = load_model(options.model, languages=options.languages)
    combiner = load_combiner(options.combiner) if options.combiner else Vanilla()
    with tempfile.TemporaryDirectory(dir=options.store.resolve().parent) as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(options.store, copy)
        (copy / "milvus.json").unlink(missing_ok=True)
        local = open_memory(copy)
        memories: dict[str, Memory] = {"exact": FolderMemory.of(store, "exact", ExactIndex(store))}
        memories[f"faiss {local.index_kind}"] = local
        flat, _ = make_index(store, IndexKind("Flat"), 1, None)
        memories["faiss Flat"] = FolderMemory.of(
            store, "flat", FaissIndex(flat, store, IndexKind("Flat"), SearchSettings())
        )
        report: dict[str, Any] = {"entries": store.entries, "sentences": len(texts)}
        for kind in options.kinds:
            address = MilvusAddress.of(options.uri, f"bench_{kind.lower()}_{os.getpid()}")
            published = publish_store(open_store(copy), address, CollectionKind.parse(f"milvus:{kind}"))
            memories[f"Milvus {kind}, keys of the store"] = open_memory(copy)
            memories[f"Milvus {kind}, collection alone"] = open_memory(str(address))
            report[f"{kind}: seconds to publish"] = round(published.seconds, 1)
        recall = measure_recall(store, open_index(open_store(copy)), [8], sample=500, seed=1)
        report[f"{options.kinds[-1]}: recall at 8, keys as queries"] = round(recall.results[0].recall, 4)
        translators = {name: System(model, [memory], combiner).open() for name, memory in memories.items()}
        found = {name: [one.text for one in translator.translate(texts)] for name, translator in translators.items()}
        report["translations that are those of exact search"] = {
            name: sum(one == other for one, other in zip(own, found["exact"], strict=True))
            for name, own in found.items()
        }
        timed = {name: each for name, each in translators.items() if "HNSW" in name or name.startswith("faiss P")}
        for batch, count in ((1, options.timed // 4), (32, options.timed)) if options.timed else ():
            speeds = _speeds(timed, texts[:count], batch, options.rounds)
            reference = statistics.median(speeds[f"faiss {local.index_kind}"])
            report[f"tokens per second, batch {batch}"] = {
                name: f"{statistics.median(own):,.0f} ({statistics.median(own) / reference:.2f} of faiss)"
                for name, own in speeds.items()
            }
        for memory in memories.values():
            if isinstance(memory, MilvusMemory):
                memory.collection.drop()
    return report


def _speeds(translators: dict[str, Translator], texts: list[str], batch: int, rounds: int) -> dict[str, list[float]]:
    speeds: dict[str, list[float]] = {name: [] for name in translators}
    for _ in range(rounds):
        for name, translator in translators.items():  # in turns
            started = time.perf_counter()
            tokens = 0
            for start in range(0, len(texts), batch):
                tokens += sum(
                    one.tokens for one in translator.translate(texts[start : start + batch], batch_size=batch)
                )
            speeds[name].append(tokens / (time.perf_counter() - started))
    return speeds


def large(options: argparse.Namespace) -> dict[str, Any]:
    """Measure a collection of many entries."""
    store = open_store(options.store)
    kind = CollectionKind.parse(options.kind)
    connection = Connection(MilvusAddress.of(options.uri, f"bench_large_{os.getpid()}"))
    collection = Collection.create(connection, CollectionInfo.of(store, kind))
    report: dict[str, Any] = {"entries": options.entries, "dimension": store.dimension, "kind": kind.name}
    started = time.perf_counter()
    _fill(collection, store, options.entries)
    report["seconds to send"] = round(time.perf_counter() - started)
    started = time.perf_counter()
    collection.build_index(options.entries)
    report["seconds to build the index and load it"] = round(time.perf_counter() - started)
    connection.call("release_collection", connection.address.collection)
    started = time.perf_counter()
    connection.call("load_collection", connection.address.collection, deadline=3600)
    report["seconds to load it again"] = round(time.perf_counter() - started, 1)
    rng = np.random.default_rng(1)
    for count in (1, 5, 160):
        queries = store.keys.gather(rng.integers(0, store.entries, count)).astype(np.float32)
        queries += rng.normal(0, 0.1, queries.shape).astype(np.float32)
        times = []
        for _ in range(20):
            started = time.perf_counter()
            collection.search(queries, 8, ["value"])
            times.append(time.perf_counter() - started)
        report[f"milliseconds for {count} queries, k 8"] = round(1000 * statistics.median(times), 1)
    report["GiB of the server process"] = round(_server_bytes() / 2**30, 2)
    collection.drop()
    return report


def _fill(collection: Collection, store: Store, entries: int) -> None:
    """Write keys of the store with a little noise: neighborhoods stay as dense as they are."""
    rng = np.random.default_rng(0)
    at_once = 16_384
    spread = float(np.std(store.keys.gather(np.arange(min(store.entries, 4096))).astype(np.float32), axis=0).mean())
    for start in range(0, entries, at_once):
        ids = np.arange(start, min(entries, start + at_once))
        rows = ids % store.entries
        written = EntryRows.of(
            store,
            rows,
            collection.mean,
            ids=ids,
            segments=np.zeros(len(ids), np.int64),
            sentences=store.sentence[rows],
            tags=[""] * len(ids),
        )
        written.keys[:] += rng.normal(0, 0.2 * spread, written.keys.shape).astype(np.float32)
        collection.write_entries(written, new=True)


def _server_bytes() -> int:
    """Return the resident memory of the largest process whose program is called milvus, if it is on this machine."""
    sizes = [0]
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        except OSError:
            continue
        if lines["Name"].strip() == "milvus" and "VmRSS" in lines:
            sizes.append(int(lines["VmRSS"].split()[0]) * 1024)
    return max(sizes)


if __name__ == "__main__":
    main()
