"""Consistency of explanations: probabilities and their parts, p_kNN and neighbors, score and tokens.

The score comes from beam search, the probabilities from teacher forcing on the finished translation.

Usage: python benchmarks/explanations.py STORE TEST [--combiner FOLDER] [--model MODEL] [--count 200] [--threads 1]
"""

from __future__ import annotations

import argparse
from itertools import islice

import faiss
import numpy as np
import torch

from lacuna import Languages, System, load_combiner, load_model, open_memory, read_corpus
from lacuna.explanation import Explainer, Explanation


def deviations(explanations: list[Explanation]) -> dict[str, float]:
    """Return the largest deviation from each identity, over all tokens."""
    largest = {"p": 0.0, "p from neighbors": 0.0, "p_knn": 0.0, "sum of weights": 0.0}
    scores = [abs(one.score - np.mean(np.log([token.p for token in one.tokens]))) for one in explanations]
    for token in (token for one in explanations for token in one.tokens):
        voted = sum(near.weight for near in token.neighbors if near.token == token.token)
        rest = (1 - token.knn_weight) * token.p_model
        found = {
            "p": abs(token.p - token.knn_weight * token.p_knn - rest),
            "p from neighbors": abs(token.p - token.knn_weight * voted - rest),
            "p_knn": abs(token.p_knn - voted),
            "sum of weights": abs(1 - sum(near.weight for near in token.neighbors)),
        }
        largest = {name: max(value, found[name]) for name, value in largest.items()}
    return largest | {"score": float(max(scores))}


def main() -> None:
    """Explain the sentences and print the largest deviations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("test")
    parser.add_argument("--combiner")
    parser.add_argument("--model")
    parser.add_argument("--languages", default="de-en")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    faiss.omp_set_num_threads(options.threads)
    pairs = islice(read_corpus(options.test, languages=Languages.parse(options.languages)), options.count)
    combiner = load_combiner(options.combiner) if options.combiner else None
    translator = System(load_model(options.model), [open_memory(options.store)], combiner).open()
    explanations = Explainer(translator).explain([pair.source for pair in pairs])
    tokens = [token for one in explanations for token in one.tokens]
    broken = sum("".join(token.text for token in one.tokens) != one.text for one in explanations)
    neighbors = sum(len(token.neighbors) for token in tokens)
    print(f"{len(explanations)} sentences, {len(tokens):,} tokens, {neighbors:,} neighbors; ", end="")
    print(f"{sum(token.changed for token in tokens):,} tokens changed; texts that do not add up: {broken}")
    print("largest deviation: " + ", ".join(f"{name} {value:.1e}" for name, value in deviations(explanations).items()))


if __name__ == "__main__":
    main()
