"""Neighborhoods made up for the tests: duplicates among the values, equal distances, missing neighbors, weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from hypothesis import strategies as st

from lacuna.combiners import Neighbors, mix_tokens
from lacuna.combiners.gate import Regions
from lacuna.fitting.token_cache import TokenCache
from lacuna.models.top_tokens import best_tokens

REGIONS = Regions(torch.tensor([[0.0, 0.0], [4.0, 0.0]]), torch.tensor([[0.5, 0.9], [3.0, 0.1]]))
VOCABULARY = 9
DIMENSION = 3


def make_neighbors(seed: int, rows: int, k: int, *, weights: bool) -> Neighbors:
    """Return float64 neighbors, the last ones of some queries missing, all of one query where there are three."""
    rng = np.random.default_rng(seed)
    distances = np.sort(rng.integers(0, 60, (rows, k)).astype(np.float64), axis=1)
    values = rng.integers(0, VOCABULARY, (rows, k))
    missing = np.arange(k) >= k - rng.integers(0, k, (rows, 1))
    missing[2:3] = True
    distances[missing], values[missing] = np.inf, -1
    log_weights = np.where(missing, 0.0, np.log(rng.integers(1, 5, (rows, k))))
    keys = torch.from_numpy(np.where(missing[..., None], 0.0, rng.normal(size=(rows, k, DIMENSION))))
    return Neighbors(
        torch.from_numpy(distances),
        torch.from_numpy(values),
        torch.from_numpy(log_weights) if weights else None,
        torch.from_numpy(rng.normal(size=(rows, DIMENSION))),
        lambda: keys,
    )


def mix_densely(log_probs: torch.Tensor, mass: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Mix all tokens of a vocabulary, and write their log-probabilities to their columns."""
    best = best_tokens(log_probs.clone(), log_probs.shape[1])
    asked = log_probs.gather(1, values.clamp(min=0)).masked_fill(values < 0, -torch.inf)
    tokens, mixed = mix_tokens(best, mass.numpy(), values.numpy(), asked.numpy())
    assert all(sorted(row) == list(range(log_probs.shape[1])) for row in tokens.tolist())
    assert (np.diff(mixed, axis=1) <= 0).all()
    return torch.from_numpy(mixed).gather(1, torch.from_numpy(tokens).argsort(1))


def one_query(found: Neighbors, row: int) -> Neighbors:
    """Return the neighbors of one query alone."""
    keys = found.read_keys()[row : row + 1]
    weights = None if found.log_weights is None else found.log_weights[row : row + 1]
    columns = (found.distances[row : row + 1], found.values[row : row + 1], weights)
    return Neighbors(*columns, None if found.queries is None else found.queries[row : row + 1], lambda: keys)


def make_cache(found: Neighbors, log_probs: torch.Tensor, gold: torch.Tensor) -> TokenCache:
    """Return what would be collected of these tokens, each a sentence of its own."""
    keys, queries = found.read_keys(), found.queries
    return TokenCache(
        distances=found.distances,
        values=found.values,
        log_weights=found.log_weights,
        gold=gold,
        log_p_gold=log_probs.gather(1, gold[:, None])[:, 0],
        log_p_values=log_probs.gather(1, found.values.clamp(min=0)),
        log_p_sum=log_probs.sum(1),
        vocabulary_size=log_probs.shape[1],
        sentences=torch.arange(len(gold)),
        read_queries=None if queries is None else lambda rows: queries[rows],
        read_keys=lambda rows: keys[rows],
    )


def single(found: Neighbors) -> Neighbors:
    """Return the same in float32."""
    keys = found.read_keys().float()
    return replace(
        found,
        distances=found.distances.float(),
        log_weights=None if found.log_weights is None else found.log_weights.float(),
        queries=None if found.queries is None else found.queries.float(),
        read_keys=lambda: keys,
    )


neighborhoods = st.builds(
    make_neighbors, st.integers(0, 2**32), st.integers(1, 5), st.sampled_from([1, 2, 4, 8]), weights=st.booleans()
)


def made_up_gains(tokens: int, seed: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """Return features of a gate, and gains that are large just where the model is unsure."""
    drawn = torch.Generator().manual_seed(seed)
    features = torch.randn(tokens, 5, generator=drawn)
    return features, torch.where(features[:, 0] < 0, 2.0, 0.0)


def made_up_dev(seed: int = 0, sentences: int = 60, k: int = 4) -> TokenCache:
    """Return tokens of a memory that can be trusted where it is near, and of a model that knows little."""
    rng = np.random.default_rng(seed)
    count = sentences * 20
    gold = rng.integers(0, VOCABULARY, count)
    nearest = rng.uniform(0, 100, count)
    distances = nearest[:, None] + np.cumsum(rng.uniform(0, 3, (count, k)), axis=1)
    right = rng.random((count, k)) < np.where(nearest < 50, 0.95, 0.1)[:, None]
    values = np.where(right, gold[:, None], rng.integers(0, VOCABULARY, (count, k)))
    logits = rng.normal(size=(count, VOCABULARY)) + np.eye(VOCABULARY)[gold]
    keys = np.repeat(np.sqrt(nearest)[:, None, None] * np.ones(DIMENSION), k, axis=1)
    near = torch.from_numpy(keys).float()
    found = Neighbors(
        torch.from_numpy(distances).float(), torch.from_numpy(values), None, torch.zeros(count, DIMENSION), lambda: near
    )
    cache = make_cache(found, torch.from_numpy(logits).float().log_softmax(-1), torch.from_numpy(gold))
    return replace(cache, sentences=torch.arange(sentences).repeat_interleave(20))
