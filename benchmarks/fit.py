"""Time of fitting relative to the dev pass, and perplexity of every combiner.

The first part times the dev pass and the fit of ``lacuna fit adaptive``; their ratio should stay below 0.1. The second
part fits all combiners with three quarters of the dev pairs and measures perplexity on the rest, which none of them has
seen. Times are CPU seconds of this process.

    python benchmarks/fit.py DEV --memory STORE [--model MODEL] [--pairs 2000] [--k 8] [--threads 1]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import faiss
import torch

from lacuna.combiners import Adaptive, Combiner, Kster
from lacuna.corpora import read_corpus
from lacuna.fitting import DevSet, FitKster
from lacuna.fitting.adaptive import fit_adaptive
from lacuna.fitting.kster import STOPPING_PAIRS, fit_kster
from lacuna.fitting.objective import hold_out, perplexity
from lacuna.fitting.token_cache import TokenCache, collect_dev, collect_entries
from lacuna.fitting.vanilla import DevRetrievals, search_grid
from lacuna.memory import Memory, open_memory
from lacuna.models import Model, load_model

LARGEST_K = 32


def part(cache: TokenCache, rows: torch.Tensor, k: int) -> TokenCache:
    """Return some tokens with their first k neighbors."""
    queries = cache.read_queries
    return replace(
        cache,
        distances=cache.distances[rows, :k],
        values=cache.values[rows, :k],
        log_weights=None if cache.log_weights is None else cache.log_weights[rows, :k],
        gold=cache.gold[rows],
        log_p_gold=cache.log_p_gold[rows],
        log_p_values=cache.log_p_values[rows, :k],
        log_p_sum=cache.log_p_sum[rows],
        sentences=cache.sentences[rows],
        read_queries=None if queries is None else lambda some: queries(rows[some]),
        read_keys=lambda some: cache.read_keys(rows[some])[:, :k],
    )


def tuned_vanilla(cache: TokenCache, rows: torch.Tensor, k: int) -> Combiner:
    """Return the best vanilla with k neighbors or fewer."""
    some = part(cache, rows, k)
    weights = None if some.log_weights is None else some.log_weights.exp().numpy()
    dev = DevRetrievals(some.log_p_gold.numpy(), some.distances.numpy(), some.says_gold.numpy(), weights)
    return search_grid(dev)[0].combiner


def fitted_kster(model: Model, memories: Sequence[Memory], dev: TokenCache, k: int) -> Kster:
    """Fit KSTER with the settings of ``lacuna fit kster``."""
    entries = collect_entries(model, memories, k, most=FitKster().entries, seed=1)
    _, stopping = hold_out(dev.sentences, STOPPING_PAIRS / len(dev.sentences.unique()), seed=1)
    return fit_kster(entries, part(dev, stopping, k), model.dimension).combiner


def measure_speed(model: Model, memories: Sequence[Memory], dev: DevSet, k: int) -> dict[str, object]:
    """Time the dev pass and the fit."""
    started = time.process_time()
    cache = collect_dev(model, memories, dev, k)
    collected = time.process_time()
    fit = fit_adaptive(cache)
    fitted = time.process_time()
    return {
        "tokens": cache.tokens,
        "dev_pass_seconds": round(collected - started, 2),
        "fit_seconds": round(fitted - collected, 2),
        "ratio": round((fitted - collected) / (collected - started), 3),
        "updates": fit.run.updates,
    }


def measure_quality(model: Model, memories: Sequence[Memory], dev: DevSet, k: int) -> dict[str, dict[str, object]]:
    """Fit all combiners on three quarters of the pairs; return their perplexity on the rest."""
    cache = collect_dev(model, memories, dev, LARGEST_K, keep_queries=True)
    seen, test = hold_out(cache.sentences, 0.25, seed=0)
    systems: dict[str, Combiner | None] = {"model alone": None}
    for count in sorted({k, Kster.k, LARGEST_K}):
        systems[f"vanilla, k up to {count}"] = tuned_vanilla(cache, seen, count)
        systems[f"adaptive, k {count}"] = fit_adaptive(part(cache, seen, count)).combiner
    systems[f"kster, k {Kster.k}"] = fitted_kster(model, memories, part(cache, seen, LARGEST_K), Kster.k)
    result: dict[str, dict[str, object]] = {}
    for name, combiner in systems.items():
        some = part(cache, test, LARGEST_K if combiner is None else combiner.k)
        score = perplexity(some, torch.arange(some.tokens), combiner)
        settings = repr(combiner) if combiner is not None else ""
        result[name] = {"perplexity": round(score, 3), "combiner": settings}
    return result


def main() -> None:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dev")
    parser.add_argument("--memory", action="append", required=True)
    parser.add_argument("--model")
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--k", type=int, default=Adaptive.k)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    faiss.omp_set_num_threads(arguments.threads)
    model, memories = load_model(arguments.model), [open_memory(path) for path in arguments.memory]
    dev = DevSet.of(islice(read_corpus(arguments.dev), arguments.pairs))  # timed without a remembered pass
    content = {
        "entries": sum(memory.store.entries for memory in memories),
        "pairs": len(dev),
        "speed": measure_speed(model, memories, dev, arguments.k),
        "quality": measure_quality(model, memories, dev, arguments.k),
    }
    print(json.dumps(content, indent=2))


if __name__ == "__main__":
    main()
