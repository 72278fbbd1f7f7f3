"""What KSTER learns from made-up tokens."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from lacuna.fitting.adaptive import RECIPE
from lacuna.fitting.kster import fit_kster
from lacuna.fitting.objective import perplexity
from unit.combiners.neighborhoods import DIMENSION, made_up_dev

# With the larger learning rate of adaptive, few updates are enough.
QUICK = replace(RECIPE, batch=128, updates=150)


def test_it_learns_when_to_trust_the_memory() -> None:
    dev = made_up_dev(seed=1)
    fit = fit_kster(made_up_dev(seed=2), dev, DIMENSION, recipe=QUICK)
    weight = fit.combiner.mass(dev.neighbors(torch.arange(dev.tokens))).sum(1)
    near = dev.distances[:, 0] < 50
    assert weight[near].mean() > 0.8
    assert weight[~near].mean() < 0.4
    assert math.exp(fit.run.loss) == pytest.approx(perplexity(dev, torch.arange(dev.tokens), fit.combiner), rel=1e-4)


def test_same_seed_same_weights() -> None:
    dev = made_up_dev(sentences=20)

    def weights(seed: int) -> list[bytes]:
        before = torch.get_rng_state()
        combiner = fit_kster(dev, dev, DIMENSION, recipe=replace(QUICK, updates=50), seed=seed).combiner
        assert torch.equal(torch.get_rng_state(), before)
        return [weight.detach().numpy().tobytes() for weight in combiner.network.parameters()]

    assert weights(1) == weights(1)
    assert weights(1) != weights(2)
