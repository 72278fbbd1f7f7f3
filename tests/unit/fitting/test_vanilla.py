"""The grid search of vanilla kNN-MT against mixing by the combiner itself."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from lacuna.combiners import Neighbors
from lacuna.fitting.vanilla import KS, TEMPERATURES, WEIGHTS, DevRetrievals, edges_of, search_grid
from unit.combiners.neighborhoods import mix_densely

VOCABULARY = 9


def test_tuning_equals_mixing_every_token_by_the_combiner() -> None:
    rng = np.random.default_rng(4)
    tokens, k = 30, 4
    distances = np.sort(rng.uniform(0, 40, (tokens, k)), axis=1).astype(np.float32)
    values, gold = rng.integers(0, VOCABULARY, (tokens, k)), rng.integers(0, VOCABULARY, tokens)
    log_probs = torch.from_numpy(rng.normal(size=(tokens, VOCABULARY))).log_softmax(-1)
    chosen = log_probs.numpy()[np.arange(tokens), gold].astype(np.float32)
    trials = search_grid(DevRetrievals(chosen, distances, values == gold[:, None]), ks=(2, 4), temperatures=(5.0, 20.0))
    assert [trial.perplexity for trial in trials] == sorted(trial.perplexity for trial in trials)
    for trial in trials[::7]:
        near, said = torch.from_numpy(distances[:, : trial.combiner.k]), torch.from_numpy(values[:, : trial.combiner.k])
        mixed = mix_densely(log_probs, trial.combiner.mass(Neighbors(near, said)).double(), said)
        loss = -mixed.numpy()[np.arange(tokens), gold].mean()
        assert trial.perplexity == pytest.approx(math.exp(loss), rel=1e-5)


def test_useless_memory_is_given_no_weight() -> None:
    dev = DevRetrievals(np.full(20, -0.1, np.float32), np.ones((20, 8), np.float32), np.zeros((20, 8), np.bool_))
    assert search_grid(dev)[0].combiner.knn_weight == 0.0


def right_memory(tokens: int = 50, k: int = 8) -> DevRetrievals:
    """A memory that always says the right token first and a wrong one after, and a model that knows nothing."""
    says_gold = np.arange(k)[None, :].repeat(tokens, 0) == 0
    distances = np.arange(k, dtype=np.float32)[None, :].repeat(tokens, 0)
    return DevRetrievals(np.full(tokens, -9.0, np.float32), distances, says_gold)


def test_a_best_setting_at_the_edge_is_reported() -> None:
    trials = search_grid(right_memory(), ks=(1, 2, 4), temperatures=(1.0, 3.0), weights=(0.0, 0.5, 0.9))
    assert (trials[0].combiner.k, trials[0].combiner.knn_weight) == (1, 0.9)
    # k 1 is no edge, and with it all temperatures are the same.
    assert [(edge.setting, edge.value, edge.largest) for edge in edges_of(trials)] == [("knn_weight", 0.9, True)]


def test_the_temperature_may_be_at_either_edge() -> None:
    low = edges_of(search_grid(right_memory(), ks=(4,), temperatures=(1.0, 3.0, 9.0), weights=(0.5, 0.6)))
    assert [(edge.setting, edge.largest) for edge in low] == [("temperature", False), ("knn_weight", True)]
    # Now only far neighbors are right, so the flattest kernel is best.
    near = right_memory()
    far = replace(near, says_gold=~near.says_gold)
    high = edges_of(search_grid(far, ks=(4,), temperatures=(1.0, 3.0, 9.0), weights=(0.0, 0.5, 1.0)))
    assert [(edge.setting, edge.largest) for edge in high] == [("temperature", True), ("knn_weight", True)]


def test_what_was_given_and_what_lies_inside_are_no_edges() -> None:
    rng = np.random.default_rng(1)
    distances = np.sort(rng.uniform(0, 40, (200, 4)), axis=1).astype(np.float32)
    dev = DevRetrievals(np.full(200, -1.0, np.float32), distances, rng.random((200, 4)) < 0.5)
    trials = search_grid(dev, ks=(4,), temperatures=(10.0,))
    assert 0 < trials[0].combiner.knn_weight < max(WEIGHTS)
    assert edges_of(trials) == ()


def test_the_grids_ascend() -> None:
    for grid in (KS, TEMPERATURES, WEIGHTS):
        assert list(grid) == sorted(set(grid))
    assert 0.0 in WEIGHTS
    assert max(WEIGHTS) < 1
