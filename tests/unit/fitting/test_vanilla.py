"""The grid search of vanilla kNN-MT against mixing by the combiner itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from lacuna.combiners import Neighbors
from lacuna.fitting.vanilla import DevRetrievals, search_grid
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
