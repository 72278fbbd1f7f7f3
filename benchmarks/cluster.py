"""Build, margin and prune with one thread, with one Dask worker and with two, over the same corpus; and with kills.

Every run starts from nothing and ends with the same files, which are compared by their hashes. The workers of a cluster
run already; that they import torch and load the model counts. With ``--kills``, two workers run once more, and random
ones of them get SIGKILL at random moments.

    python benchmarks/cluster.py CORPUS [--pairs 4000] [--kills 10]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from lacuna.artifacts.files import sha256_of
from lacuna.corpora import clean, read_corpus
from lacuna.datastore import build_store, open_store
from lacuna.index import build_index
from lacuna.margin import measure_margin
from lacuna.models import Model, load_model
from lacuna.pruning import Merge, prune_store
from lacuna.records import Languages, SentencePair
from lacuna.workers import use_threads
from lacuna.workers.dask_pool import DaskPool, open_pool


def hashes(folder: Path) -> dict[str, str]:
    """Return the hashes of all files."""
    return {str(path.relative_to(folder)): sha256_of(path) for path in sorted(folder.rglob("*")) if path.is_file()}


def verbs(
    model: Model, pairs: list[SentencePair], shard_rows: int, folder: Path, pool: DaskPool | None
) -> dict[str, Callable[[], object]]:
    """Return the three verbs, each of which continues where the one before has ended."""
    store = folder / "store"

    def prune() -> None:
        prune_store(open_store(store), Merge(), folder / "pruned", ratio=0.3, clamp=True, index=None, pool=pool)

    return {
        "build": lambda: build_store(model, pairs, store, cleaning=None, shard_rows=shard_rows, pool=pool),
        "margin": lambda: measure_margin(open_store(store), pool=pool),
        "prune": prune,
    }


def run(made: dict[str, Callable[[], object]], store: Path) -> dict[str, float]:
    """Run the verbs; return the seconds of each. The index, which merging needs, is built in between and not timed."""
    seconds = {}
    for name, verb in made.items():
        if name == "prune":
            build_index(open_store(store))
        started = time.perf_counter()
        verb()
        seconds[name] = time.perf_counter() - started
    return seconds


@contextmanager
def killing(pool: DaskPool, kills: int, seed: int, longest: float) -> Iterator[list[float]]:
    """Kill random workers at random moments; yield the times of the kills."""
    rng, done, killed = random.Random(seed), threading.Event(), list[float]()
    begun = time.perf_counter()

    def kill() -> None:
        while len(killed) < kills and not done.wait(rng.uniform(0, longest)):
            with suppress(Exception):  # a worker that is just being started again
                os.kill(rng.choice(list(pool._client.run(os.getpid).values())), signal.SIGKILL)
                killed.append(round(time.perf_counter() - begun, 1))

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        yield killed
    finally:
        done.set()
        thread.join()


def main() -> None:
    """Print one JSON object for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", help="as for lacuna build")
    parser.add_argument("--model", help="folder or hub name; default: the bundled model")
    parser.add_argument("--languages", default="de-en")
    parser.add_argument("--pairs", type=int, default=4000)
    parser.add_argument("--shard-rows", type=int, default=4096)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--longest", type=float, default=8.0, help="longest time between two kills, in seconds")
    parser.add_argument("--only-kills", action="store_true", help="leave out the runs that are only timed")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    use_threads(1)
    languages = Languages.parse(given.languages)
    model = load_model(given.model, device="cpu", languages=languages)
    assert model.fingerprint  # computed once, and not a part of the first run
    pairs = list(islice(clean(read_corpus(given.corpus, languages=languages)), given.pairs))
    runs: list[tuple[str, int, int]] = [("one thread", 0, 0), ("1 worker", 1, 0), ("2 workers", 2, 0)]
    runs = runs[:1] if given.only_kills else runs
    runs += [(f"2 workers, {given.kills} kills", 2, given.kills)] if given.kills else []
    plain: dict[str, float] = {}
    expected: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as base:
        for name, workers, kills in runs:
            folder = Path(base) / "run"
            opened: Any = open_pool(workers=workers) if workers else nullcontext()
            with opened as pool, killing(pool, kills, given.seed, given.longest) if kills else nullcontext([]) as times:
                seconds = run(verbs(model, pairs, given.shard_rows, folder, pool), folder / "store")
            found = hashes(folder)
            plain, expected = plain or seconds, expected or found
            report: dict[str, object] = {"run": name, "entries": open_store(folder / "store").entries}
            report |= {
                verb: {"seconds": round(each, 1), "speedup": round(plain[verb] / each, 2)}
                for verb, each in seconds.items()
            }
            report |= {"files": len(found), "identical": found == expected} | ({"kills at": times} if kills else {})
            print(json.dumps(report), flush=True)
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
