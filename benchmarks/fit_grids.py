"""Dev perplexity by temperature, k and weight: whether the best settings lie inside the grids that fitting tries.

Adaptive kNN-MT is trained on three quarters of the dev pairs with each temperature and k, and measured on the rest,
which it has not seen. Vanilla kNN-MT is searched on the same three quarters over wider grids than those of ``lacuna
fit``; a row has the best perplexity with this k, temperature or weight and any others.

    python benchmarks/fit_grids.py DEV --memory STORE --languages fr-en [--model MODEL] [--pairs 500] [--ks 4 8 16]
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from itertools import islice

import torch

from fit import part
from lacuna.corpora import read_corpus
from lacuna.fitting import DevSet
from lacuna.fitting.adaptive import fit_adaptive
from lacuna.fitting.objective import hold_out, perplexity
from lacuna.fitting.token_cache import TokenCache, collect_dev
from lacuna.fitting.vanilla import DevRetrievals, VanillaTrial, search_grid
from lacuna.memory import open_memory
from lacuna.models import load_model
from lacuna.records import Languages

# Wider than those of lacuna.fitting.
TEMPERATURES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0)
WEIGHTS = (*(round(0.05 * step, 2) for step in range(20)), 0.97, 0.98, 0.99)


def retrievals_of(cache: TokenCache, rows: torch.Tensor) -> DevRetrievals:
    """Return what the grid search of vanilla needs of some tokens."""
    some = part(cache, rows, cache.values.shape[1])
    weights = None if some.log_weights is None else some.log_weights.exp().numpy()
    return DevRetrievals(some.log_p_gold.numpy(), some.distances.numpy(), some.says_gold.numpy(), weights)


def best_by(trials: list[VanillaTrial], setting: str) -> dict[str, float]:
    """Return the best perplexity with each value of a setting."""
    best: dict[float, float] = {}
    for trial in trials:  # best first
        best.setdefault(getattr(trial.combiner, setting), trial.perplexity)
    return {f"{value:g}": round(best[value], 4) for value in sorted(best)}


def measure_adaptive(cache: TokenCache, k: int, temperatures: tuple[float, ...]) -> dict[str, object]:
    """Train with each temperature; return the perplexity of unseen pairs."""
    seen, unseen = hold_out(cache.sentences, 0.25, seed=0)
    train, test = part(cache, seen, k), part(cache, unseen, k)
    rows, found = torch.arange(test.tokens), {}
    for temperature in temperatures:
        fit = fit_adaptive(train, temperature=temperature)
        found[f"{temperature:g}"] = round(perplexity(test, rows, fit.combiner), 4)
    started = time.process_time()
    chosen = fit_adaptive(train).combiner
    return {
        "by_temperature": found,
        "chosen": chosen.temperature,
        "chosen_perplexity": round(perplexity(test, rows, chosen), 4),
        "chosen_seconds": round(time.process_time() - started, 2),
    }


def main() -> None:
    """Print one JSON object per line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dev")
    parser.add_argument("--memory", required=True)
    parser.add_argument("--model")
    parser.add_argument("--languages")
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--ks", type=int, nargs="+", default=[4, 8, 16, 32, 64, 128])
    parser.add_argument("--vanilla-ks", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64, 128, 256])
    parser.add_argument("--all-temperatures", type=int, nargs="+", default=[8], help="k for which all are measured")
    given = parser.parse_args()
    languages = None if given.languages is None else Languages.parse(given.languages)
    model = load_model(given.model, languages=languages, mask_placeholders=False)
    memory = open_memory(given.memory)
    dev = DevSet.of(islice(read_corpus(given.dev, languages=languages), given.pairs))
    cache = collect_dev(model, [memory], dev, max(given.ks + given.vanilla_ks))
    alone = perplexity(cache, hold_out(cache.sentences, 0.25, seed=0)[1])
    print(json.dumps({"entries": memory.entries, "tokens": cache.tokens, "model alone": round(alone, 4)}), flush=True)
    seen, _ = hold_out(cache.sentences, 0.25, seed=0)
    trials = search_grid(retrievals_of(cache, seen), given.vanilla_ks, TEMPERATURES, WEIGHTS)
    row: dict[str, object] = {"vanilla": repr(trials[0].combiner)}
    print(json.dumps(row | {name: best_by(trials, name) for name in ("k", "temperature", "knn_weight")}), flush=True)
    cut = replace(cache, read_queries=None)
    for k in given.ks:
        temperatures = TEMPERATURES if k in given.all_temperatures else ()
        print(json.dumps({"adaptive, k": k} | measure_adaptive(cut, k, temperatures)), flush=True)


if __name__ == "__main__":
    main()
