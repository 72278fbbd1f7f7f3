"""What adaptive kNN-MT learns from made-up tokens."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from lacuna.combiners import Neighbors
from lacuna.fitting import adaptive
from lacuna.fitting.adaptive import RECIPE, TEMPERATURES, descend, fit_adaptive
from lacuna.fitting.objective import perplexity
from lacuna.fitting.vanilla import DevRetrievals, search_grid
from unit.combiners.neighborhoods import VOCABULARY, made_up_dev, make_cache

QUICK = replace(RECIPE, batch=128, updates=150)


def test_it_learns_when_to_trust_the_memory_which_vanilla_cannot() -> None:
    dev = made_up_dev()
    fit = fit_adaptive(dev, recipe=QUICK)
    held = fit.held_out
    retrievals = DevRetrievals(dev.log_p_gold[held].numpy(), dev.distances[held].numpy(), dev.says_gold[held].numpy())
    assert math.exp(fit.run.loss) < 0.9 * search_grid(retrievals)[0].perplexity
    weight = fit.combiner.mass(dev.neighbors(held)).sum(1)
    near = dev.distances[held, 0] < 50
    assert weight[near].mean() > 0.8
    assert weight[~near].mean() < 0.4


def test_what_was_learned_reads_raw_features() -> None:
    dev = made_up_dev()
    fit = fit_adaptive(dev, temperature=30.0, recipe=QUICK)
    assert fit.combiner.temperature == 30.0
    assert perplexity(dev, fit.held_out, fit.combiner) == pytest.approx(math.exp(fit.run.loss), rel=1e-4)


def test_temperature_is_chosen_from_the_grid_by_what_was_held_out() -> None:
    dev = made_up_dev()
    # The second neighbor is always right and the first never, so the flattest kernel is best.
    wrong = torch.stack([(dev.gold + 1) % VOCABULARY, dev.gold, dev.gold, dev.gold], dim=1)
    distances = torch.tensor([0.0, 30.0, 30.0, 30.0]).expand(dev.tokens, 4) + dev.distances[:, :1]
    lying = make_cache(
        Neighbors(distances, wrong, None, None, lambda: torch.zeros(dev.tokens, 4, 1)),
        torch.full((dev.tokens, VOCABULARY), 1 / VOCABULARY).log(),
        dev.gold,
    )
    fit = fit_adaptive(lying, recipe=QUICK)
    assert fit.combiner.temperature > 100
    assert (fit.at_edge is not None) == (fit.combiner.temperature == max(TEMPERATURES))


def test_a_temperature_at_the_edge_of_the_grid_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    dev = made_up_dev(sentences=20)
    short = replace(QUICK, updates=25)
    assert fit_adaptive(dev, temperature=30.0, recipe=short).at_edge is None  # given, not chosen
    monkeypatch.setattr(adaptive, "TEMPERATURES", (29.0, 30.0))
    edge = fit_adaptive(dev, recipe=short).at_edge
    assert edge is not None
    assert edge.setting == "temperature"
    assert ("largest" if edge.largest else "smallest") in str(edge)


@pytest.mark.parametrize("best", [1, 3, 10, 30, 100, 300, 1000])
def test_the_descent_finds_the_minimum_with_few_trials(best: float) -> None:
    tried = []

    def loss(choice: float) -> float:
        tried.append(choice)
        return abs(math.log(choice / best))

    choices = (1, 3, 10, 30, 100, 300, 1000)
    assert descend(choices, 30, loss) == best
    assert len(tried) == len(set(tried))
    assert len(tried) <= 3 + abs(choices.index(best) - choices.index(30))


def test_the_descent_stays_where_no_choice_is_better() -> None:
    assert descend((1, 10, 100), 10, lambda _: 1.0) == 10


def test_useless_memory_does_no_harm() -> None:
    dev = made_up_dev()
    useless = replace(
        dev, values=torch.randint(0, VOCABULARY, dev.values.shape, generator=torch.Generator().manual_seed(3))
    )
    fit = fit_adaptive(useless, recipe=QUICK)
    assert math.exp(fit.run.loss) < 1.02 * perplexity(useless, fit.held_out)


def test_memory_without_entries_can_be_fitted_to() -> None:
    dev = made_up_dev(sentences=5)
    empty = replace(dev, values=torch.full_like(dev.values, -1), distances=torch.full_like(dev.distances, torch.inf))
    fit = fit_adaptive(empty, recipe=QUICK)
    assert math.exp(fit.run.loss) == pytest.approx(perplexity(empty, fit.held_out), rel=1e-5)


def test_same_seed_same_weights() -> None:
    dev = made_up_dev(sentences=20)

    def weights(seed: int) -> list[bytes]:
        before = torch.get_rng_state()
        short = replace(QUICK, updates=50)
        combiner = fit_adaptive(dev, temperature=10.0, recipe=short, seed=seed).combiner
        assert torch.equal(torch.get_rng_state(), before)
        return [weight.detach().numpy().tobytes() for weight in combiner.network.parameters()]

    assert weights(1) == weights(1)
    assert weights(1) != weights(2)
