"""Whether approximate margins change what PLAC costs.

Exact margins are those of the store, which is only read; approximate ones are measured in a temporary copy. For each
``min_margin``: the share of the known entries about which PLAC decides the same, and the share of all entries that are
candidates with each of the margins. For each ratio: the loss of log-probability on dev, as a share of what the memory
adds, and the difference with its 95 % interval by paired bootstrap over sentences. PLAC draws the entries to drop from
its candidates, so losses are means over several seeds; ``by seed`` is the standard deviation of a single draw.

    python benchmarks/approximate_margins.py STORE DEV --model MODEL --languages fr-en [--pairs 500] [--seeds 20]
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lacuna.combiners import Vanilla
from lacuna.corpora import read_corpus
from lacuna.datastore import Store, open_store
from lacuna.errors import SettingError
from lacuna.evaluation.significance import resample_sums
from lacuna.fitting import DevSet
from lacuna.fitting.pruning_loss import HeldOutTokens, LossTest, find_neighbors_of
from lacuna.fitting.vanilla import search_grid
from lacuna.margin import Approximate, measure_margin, read_margins
from lacuna.memory import open_memory
from lacuna.models import load_model
from lacuna.progress import SILENT
from lacuna.pruning import Plac
from lacuna.pruning.pruned_store import StoreEntries
from lacuna.records import Languages

# Of vanilla kNN-MT, as in lacuna prune --auto; more neighbors are retrieved, because dropped ones are hidden.
KS = (4, 8, 16)
RETRIEVED = 256

Floats = NDArray[np.float64]


def compare_decisions(exact: Store, approximate: Store, min_margins: list[int]) -> None:
    """Print how the margins differ."""
    known, before, after = exact.known, read_margins(exact).values, read_margins(approximate).values
    for least in min_margins:
        old, new = (before >= least)[known], (after >= least)[known]
        row: dict[str, object] = {"min_margin": least, "same": round(float((old == new).mean()), 4)}
        row["candidates exact"] = round(float(old.sum() / exact.entries), 4)
        row["candidates approximate"] = round(float(new.sum() / exact.entries), 4)
        print(json.dumps(row), flush=True)


def pruned_log_p(
    tokens: HeldOutTokens, combiner: Vanilla, store: Store, least: int, ratio: float, seeds: int
) -> tuple[list[Floats], float]:
    """Return the log-probability of the right tokens for each seed, and the share of tokens that lack neighbors."""
    found, short = list[Floats](), list[float]()
    for seed in range(1, seeds + 1):
        keep = Plac(least).prune(StoreEntries(store, SILENT), ratio=ratio, seed=seed).keep
        found.append(tokens.log_p(combiner, keep))
        short.append(float((keep[tokens.entries].sum(1) < combiner.k).mean()))
    return found, float(np.mean(short))


def measure_difference(test: LossTest, exact: list[Floats], approximate: list[Floats]) -> dict[str, object]:
    """Compare the losses, as shares of what the memory adds."""
    row: dict[str, object] = {}
    for name, found in (("exact", exact), ("approximate", approximate)):
        loss = test.measure(np.mean(found, axis=0))
        assert loss.share is not None
        row[name] = round(loss.share, 4)
        row[f"{name} by seed"] = round(float(np.std([each.mean() for each in found], ddof=1)) / test.gain, 4)
    _, places = np.unique(test.sentences, return_inverse=True)
    columns = (np.mean(exact, axis=0) - np.mean(approximate, axis=0), test.whole - test.alone)
    drawn = resample_sums(np.stack([np.bincount(places, weights=column) for column in columns], 1))
    bounds = np.quantile(drawn[:, 0] / drawn[:, 1], (0.025, 0.975))
    row["difference"] = [round(float(each), 4) for each in (columns[0].mean() / test.gain, *bounds)]
    return row


def main() -> None:
    """Print one JSON object per row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("dev")
    parser.add_argument("--model")
    parser.add_argument("--languages", required=True)
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--min-margins", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--ratios", type=float, nargs="+", default=[0.1, 0.2, 0.25, 0.4])
    parser.add_argument("--seeds", type=int, default=20)
    given = parser.parse_args()
    languages = Languages.parse(given.languages)
    memory = open_memory(given.store)
    exact = memory.store
    if read_margins(exact).manifest.method != "exact":
        raise SystemExit(f"{given.store}: its margins are approximate; give a store with exact ones")
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / "store"
        shutil.copytree(given.store, copied, ignore=shutil.ignore_patterns("margin", "index"))
        approximate = open_store(copied)
        started = time.process_time()
        agreement = measure_margin(approximate, approximate=Approximate()).manifest.agreement
        seconds = round(time.process_time() - started, 1)
        facts: dict[str, object] = {"entries": exact.entries, "known": round(float(exact.known.mean()), 4)}
        facts |= {"seconds": seconds, "decisions of a sample": agreement and agreement.decisions}
        print(json.dumps(facts), flush=True)
        compare_decisions(exact, approximate, given.min_margins)
        model = load_model(given.model, languages=languages, mask_placeholders=False)
        dev = DevSet(islice(read_corpus(given.dev, languages=languages), given.pairs))
        tokens = find_neighbors_of(model, memory, dev, RETRIEVED)
        combiner = search_grid(tokens.retrieved, KS)[0].combiner
        test = LossTest(tokens.sentences, tokens.alone, tokens.log_p(combiner))
        facts = {"pairs": len(dev), "tokens": len(tokens.sentences), "gain": round(test.gain, 4)}
        print(json.dumps(facts | {"combiner": repr(combiner)}), flush=True)
        for least in given.min_margins:
            for ratio in given.ratios:
                row: dict[str, object] = {"min_margin": least, "ratio": ratio}
                try:
                    (old, short), (new, _) = (
                        pruned_log_p(tokens, combiner, store, least, ratio, given.seeds)
                        for store in (exact, approximate)
                    )
                except SettingError:
                    print(json.dumps(row | {"difference": "too few candidates"}), flush=True)
                    continue
                row["tokens short of neighbors"] = round(short, 4)
                print(json.dumps(row | measure_difference(test, old, new)), flush=True)


if __name__ == "__main__":
    main()
