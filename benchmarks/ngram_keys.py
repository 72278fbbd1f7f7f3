"""Keys of several tokens: perplexity with the states of the last one, two or three positions as key.

The key of a token is its decoder state h(t), as in every memory, or the concatenation [h(t), a h(t-1)] or
[h(t), a h(t-1), a² h(t-2)]; positions before the first token are zeros. Search is exact. Vanilla kNN-MT (by grid
search) and adaptive kNN-MT are fitted to one half of the dev pairs and measured on the other half, and the other way
round. Adaptive is trained with several seeds, whose log-probabilities are averaged. Differences from the key of today
have a 95 % interval by paired bootstrap over sentences.

    python benchmarks/ngram_keys.py STORE DEV --model MODEL --languages fr-en [--pairs 300] [--weights 0.25 0.5 1]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray

from fit import part
from fit_grids import TEMPERATURES, retrievals_of
from lacuna.combiners.interpolation import Weighing
from lacuna.corpora import read_corpus
from lacuna.datastore import Store, open_store
from lacuna.evaluation.significance import resample_sums
from lacuna.fitting import DevSet
from lacuna.fitting.adaptive import fit_adaptive
from lacuna.fitting.dev_pass import MIN_LOG_P
from lacuna.fitting.objective import losses
from lacuna.fitting.token_cache import TokenCache
from lacuna.fitting.vanilla import gold_log_p, search_grid
from lacuna.models import Model, load_model
from lacuna.records import Languages

KS = (1, 2, 4, 8, 16, 32, 64)
ADAPTIVE_K = 8


@dataclass(frozen=True, slots=True)
class Key:
    """A kind of key.

    :param tokens: Number of positions whose states are concatenated.
    :param weight: a: the state of n positions before is multiplied by the n-th power of it.
    """

    tokens: int
    weight: float = 1.0

    def __str__(self) -> str:
        names = ["h(t)", f"{self.weight:g} h(t-1)", f"{self.weight**2:g} h(t-2)"]
        return f"[{', '.join(names[: self.tokens])}]"


@dataclass(frozen=True, eq=False)
class Keys:
    """The keys of a store, for products.

    :param centered: Keys minus their mean: (entries, dimension).
    :param squares: Squared lengths of these: (entries,).
    :param norms: Squared lengths of the keys: (entries,).
    """

    centered: torch.Tensor
    squares: torch.Tensor
    norms: torch.Tensor
    mean: torch.Tensor
    position: torch.Tensor

    @classmethod
    def of(cls, store: Store) -> Keys:
        """Read all keys."""
        position = store.position.astype(np.int64)
        if not (position[1:][position[1:] > 0] == position[:-1][position[1:] > 0] + 1).all():
            raise SystemExit(f"{store.path}: entries are not in the order of the corpus")
        keys, mean = torch.from_numpy(store.keys.gather(np.arange(store.entries))).float(), torch.tensor(store.mean)
        norms = keys.square().sum(1)
        centered = keys.sub_(mean)
        return cls(centered, centered.square().sum(1), norms, mean, torch.from_numpy(position))

    def distances(self, states: torch.Tensor) -> torch.Tensor:
        """Return squared distances of the states of a sentence: (positions, entries)."""
        centered = states - self.mean
        products = torch.addmm(self.squares[None], centered, self.centered.T, alpha=-2)
        return products.add_(centered.square().sum(1, keepdim=True)).clamp_(min=0)

    def before(self, distances: torch.Tensor, states: torch.Tensor, steps: int) -> torch.Tensor:
        """Return the squared distances between the states some positions before: (positions, entries).

        :param distances: Of the positions themselves.
        :param states: Of these, which must be all of a sentence.
        """
        shifted = torch.zeros_like(distances)
        shifted[steps:, steps:] = distances[:-steps, :-steps]
        early = (self.position < steps).nonzero()[:, 0]  # have zeros there
        shifted[:, steps:][:steps] = self.norms[:-steps]
        shifted[:, early] = 0
        shifted[steps:, early] = states.square().sum(1)[:-steps, None]
        return shifted


def collect(model: Model, store: Store, dev: DevSet, kinds: Sequence[Key]) -> dict[Key, TokenCache]:
    """Search with every kind of key; return the dev tokens with their neighbors, by kind."""
    keys, values = Keys.of(store), torch.from_numpy(store.values.astype(np.int64))
    parts: dict[Key, list[dict[str, torch.Tensor]]] = {kind: [] for kind in kinds}
    for batch in dev.teacher_force(model):
        lengths = list(batch.outputs.lengths)
        columns = (batch.outputs.keys, batch.gold, batch.sentences)
        for states, gold, sentences in zip(*(column.split(lengths) for column in columns), strict=True):
            log_p = model.project(states).log_softmax(-1).clamp(min=MIN_LOG_P)
            model_columns = {
                "gold": gold,
                "log_p_gold": log_p.gather(1, gold[:, None])[:, 0],
                "log_p_sum": log_p.sum(1),
                "sentences": sentences,
            }
            for kind, (distances, entries) in zip(kinds, _nearest(keys, states, kinds), strict=True):
                near = {"distances": distances, "values": values[entries]}
                near["log_p_values"] = log_p.gather(1, near["values"])
                parts[kind].append(model_columns | near)
    return {
        kind: TokenCache(
            log_weights=None,
            vocabulary_size=model.vocabulary_size,
            **{name: torch.cat([each[name] for each in found]) for name in found[0]},
        )
        for kind, found in parts.items()
    }


def _nearest(
    keys: Keys, states: torch.Tensor, kinds: Sequence[Key]
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:  # (positions, k) each
    """Yield distances and entries of the neighbors by each kind of key, for the positions of a sentence."""
    at = keys.distances(states)
    by_step = [at, *(keys.before(at, states, steps) for steps in range(1, max(kind.tokens for kind in kinds)))]
    for kind in kinds:
        total = at.clone()
        for steps in range(1, kind.tokens):
            total.add_(by_step[steps], alpha=kind.weight ** (2 * steps))
        yield total.topk(max(KS), dim=1, largest=False)


def measure(cache: TokenCache, seeds: int) -> tuple[dict[str, NDArray[np.float64]], dict[str, list[float]]]:
    """Fit to each half of the pairs; return the log-probability of the right tokens, and the settings chosen."""
    log_p = {"vanilla": np.zeros(cache.tokens), "adaptive": np.zeros(cache.tokens)}
    chosen: dict[str, list[float]] = {"k": [], "temperature": [], "knn_weight": [], "adaptive_temperature": []}
    half = cache.sentences % 2
    for fold in (0, 1):
        seen, unseen = (half != fold).nonzero()[:, 0], (half == fold).nonzero()[:, 0]
        vanilla = search_grid(retrievals_of(cache, seen), KS, TEMPERATURES)[0].combiner
        log_p["vanilla"][unseen.numpy()] = gold_log_p(retrievals_of(cache, unseen), vanilla)
        for setting in ("k", "temperature", "knn_weight"):
            chosen[setting].append(getattr(vanilla, setting))
        train, test = part(cache, seen, ADAPTIVE_K), part(cache, unseen, ADAPTIVE_K)
        rows = torch.arange(test.tokens)
        for seed in range(1, seeds + 1):
            combiner = fit_adaptive(train, seed=seed).combiner
            with torch.no_grad():
                found = -losses(test, rows, Weighing.of(combiner.mass(test.neighbors(rows)))).double().numpy()
            log_p["adaptive"][unseen.numpy()] += found / seeds
            chosen["adaptive_temperature"].append(combiner.temperature)
    return log_p, chosen


def interval(change: NDArray[np.float64], sentences: NDArray[np.int64]) -> list[float]:
    """Return the mean change with its 95 % interval, by bootstrap resampling of sentences."""
    _, places = np.unique(sentences, return_inverse=True)
    drawn = resample_sums(np.stack([np.bincount(places, weights=change), np.bincount(places)], 1))
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], (0.025, 0.975))
    return [round(float(each), 4) for each in (change.mean(), low, high)]


def main() -> None:
    """Print one JSON object per kind of key."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("dev")
    parser.add_argument("--model")
    parser.add_argument("--languages", required=True)
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--weights", type=float, nargs="+", default=[0.25, 0.5, 1.0])
    parser.add_argument("--seeds", type=int, default=2, help="trainings of adaptive")
    given = parser.parse_args()
    languages = Languages.parse(given.languages)
    model, store = load_model(given.model, languages=languages, mask_placeholders=False), open_store(given.store)
    store.check_model(model)
    kinds = [Key(1), *(Key(tokens, weight) for tokens in (2, 3) for weight in given.weights)]
    dev = DevSet(islice(read_corpus(given.dev, languages=languages), given.pairs))
    with torch.inference_mode():
        caches = collect(model, store, dev, kinds)
    today = caches[kinds[0]]
    sentences, alone = today.sentences.numpy(), today.log_p_gold.double().numpy()
    facts = {"entries": store.entries, "pairs": len(dev), "tokens": today.tokens}
    print(json.dumps(facts | {"model alone": round(float(np.exp(-alone.mean())), 4)}), flush=True)
    first: dict[str, NDArray[np.float64]] = {}
    for kind, cache in caches.items():
        log_p, chosen = measure(cache, given.seeds)
        first = first or log_p
        says = cache.says_gold
        row: dict[str, object] = {"key": str(kind), "nearest is right": round(float(says[:, 0].float().mean()), 4)}
        row[f"right among {ADAPTIVE_K}"] = round(float(says[:, :ADAPTIVE_K].any(1).float().mean()), 4)
        for name, found in log_p.items():
            row[f"{name} perplexity"] = round(float(np.exp(-found.mean())), 4)
            if found is not first[name]:
                row[f"{name} gain"] = interval(found - first[name], sentences)
        print(json.dumps(row | {"chosen": chosen}), flush=True)


if __name__ == "__main__":
    main()
