"""Fitting on cached tokens: loss and gradients against the whole vocabulary, and what is learned from made-up data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from lacuna.combiners import Adaptive, Kster, Neighbors, Vanilla
from lacuna.combiners.interpolation import Weighing
from lacuna.errors import SettingError
from lacuna.fitting.adaptive import RECIPE, TEMPERATURES, fit_adaptive
from lacuna.fitting.kster import fit_kster
from lacuna.fitting.objective import FitRecipe, hold_out, losses, perplexity, train
from lacuna.fitting.token_cache import TokenCache
from lacuna.fitting.vanilla import DevRetrievals, search_grid
from lacuna.progress import SILENT
from unit.combiners.neighborhoods import DIMENSION, VOCABULARY, make_cache, make_neighbors

SMOOTHING = 0.05
QUICK = replace(RECIPE, batch=128, updates=150)


def dense_loss(log_probs: torch.Tensor, found: Neighbors, gold: torch.Tensor, mass: torch.Tensor) -> torch.Tensor:
    """Mix over the whole vocabulary, one neighbor after the other, and smooth labels as fairseq does."""
    rows = []
    for row in range(len(gold)):
        mixed = (1 - mass[row].sum()) * log_probs[row].exp()
        for place, value in enumerate(found.values[row].tolist()):
            if value >= 0:
                mixed = mixed + mass[row, place] * nn.functional.one_hot(torch.tensor(value), len(mixed))
        log_p = mixed.log()
        rows.append(-(1 - SMOOTHING) * log_p[gold[row]] - SMOOTHING / len(mixed) * log_p.sum())
    return torch.stack(rows)


def gradients(loss: torch.Tensor, network: nn.Module) -> list[torch.Tensor]:
    return list(torch.autograd.grad(loss, list(network.parameters()), allow_unused=True, materialize_grads=True))


def compare(
    found: Neighbors, weigh: Callable[[], Weighing], network: nn.Module, log_probs: torch.Tensor, gold: torch.Tensor
) -> None:
    rows = torch.arange(len(gold))
    got = losses(make_cache(found, log_probs, gold), rows, weigh(), SMOOTHING)
    wanted = dense_loss(log_probs, found, gold, weigh().mass)
    torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-12)
    pairs = zip(gradients(got.mean(), network), gradients(wanted.mean(), network), strict=True)
    for mine, naive in pairs:
        torch.testing.assert_close(mine, naive, rtol=1e-7, atol=1e-12)


@st.composite
def tokens(draw: st.DrawFn) -> tuple[Neighbors, torch.Tensor, torch.Tensor]:
    seed, rows, k = draw(st.integers(0, 2**32)), draw(st.integers(3, 6)), draw(st.sampled_from([1, 2, 4, 8]))
    found = make_neighbors(seed, rows, k, weights=draw(st.booleans()))
    chance = torch.Generator().manual_seed(seed)
    log_probs = (3 * torch.randn(rows, VOCABULARY, generator=chance, dtype=torch.float64)).log_softmax(-1)
    gold = torch.randint(0, VOCABULARY, (rows,), generator=chance)
    gold[0] = found.values[0, 0].clamp(min=0)  # one that is retrieved; most others are not
    return found, log_probs, gold


@given(tokens(), st.integers(0, 100))
def test_loss_and_gradients_of_adaptive_equal_the_whole_vocabularys(
    case: tuple[Neighbors, torch.Tensor, torch.Tensor], seed: int
) -> None:
    found, log_probs, gold = case
    torch.manual_seed(seed)
    combiner = Adaptive(found.values.shape[1])
    combiner.network.double()
    compare(
        found,
        lambda: combiner.weigh(combiner.features(found), combiner.kernels(found)),
        combiner.network,
        log_probs,
        gold,
    )


@given(tokens(), st.integers(0, 100), st.sampled_from(["laplacian", "gaussian"]))
def test_loss_and_gradients_of_kster_equal_the_whole_vocabularys(
    case: tuple[Neighbors, torch.Tensor, torch.Tensor], seed: int, kernel: str
) -> None:
    found, log_probs, gold = case
    torch.manual_seed(seed)
    combiner = Kster(DIMENSION, found.values.shape[1], kernel)
    combiner.network.double()
    compare(found, lambda: combiner.weigh(found), combiner.network, log_probs, gold)


@given(tokens(), st.floats(0, 0.99))
def test_perplexity_equals_the_whole_vocabularys(
    case: tuple[Neighbors, torch.Tensor, torch.Tensor], weight: float
) -> None:
    found, log_probs, gold = case
    rows, combiner = torch.arange(len(gold)), Vanilla(found.values.shape[1], weight)
    mass = combiner.mass(found)
    mixed = (1 - mass.sum(1)) * log_probs.exp().gather(1, gold[:, None])[:, 0]
    mixed += (mass * (found.values == gold[:, None])).sum(1)
    cache = make_cache(found, log_probs, gold)
    assert perplexity(cache, rows, combiner) == pytest.approx(math.exp(-float(mixed.log().mean())), rel=1e-9)
    alone = -float(log_probs.gather(1, gold[:, None]).mean())
    assert perplexity(cache, rows) == pytest.approx(math.exp(alone))


def test_an_underflow_is_no_nan() -> None:
    far = torch.tensor([[0.0, 1e6]], requires_grad=False)
    cache = make_cache(Neighbors(far, torch.tensor([[1, 2]]), None, None, lambda: torch.zeros(1, 2, 1)),
                       torch.full((1, 4), 0.25).log(), torch.tensor([2]))  # fmt: skip
    combiner = Adaptive(k=2, temperature=1.0)
    found = cache.neighbors(torch.arange(1))
    loss = losses(cache, torch.arange(1), combiner.weigh(combiner.features(found), combiner.kernels(found)), 0.1)
    assert all(grad.isfinite().all() for grad in gradients(loss.sum(), combiner.network))


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


def test_adaptive_learns_when_to_trust_the_memory_which_vanilla_cannot() -> None:
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
    assert fit_adaptive(lying, recipe=QUICK).combiner.temperature == max(TEMPERATURES)


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


@pytest.mark.parametrize("kind", ["adaptive", "kster"])
def test_same_seed_same_weights(kind: str) -> None:
    dev = made_up_dev(sentences=20)

    def weights(seed: int) -> list[bytes]:
        before = torch.get_rng_state()
        short = replace(QUICK, updates=50)
        if kind == "adaptive":
            combiner: Adaptive | Kster = fit_adaptive(dev, temperature=10.0, recipe=short, seed=seed).combiner
        else:
            combiner = fit_kster(dev, dev, DIMENSION, recipe=short, seed=seed).combiner
        assert torch.equal(torch.get_rng_state(), before)
        return [weight.detach().numpy().tobytes() for weight in combiner.network.parameters()]

    assert weights(1) == weights(1)
    assert weights(1) != weights(2)


def test_kster_learns_when_to_trust_the_memory() -> None:
    dev = made_up_dev(seed=1)
    fit = fit_kster(made_up_dev(seed=2), dev, DIMENSION, recipe=replace(QUICK, learning_rate=0.01))
    weight = fit.combiner.mass(dev.neighbors(torch.arange(dev.tokens))).sum(1)
    near = dev.distances[:, 0] < 50
    assert weight[near].mean() > 0.8
    assert weight[~near].mean() < 0.4
    assert math.exp(fit.run.loss) == pytest.approx(perplexity(dev, torch.arange(dev.tokens), fit.combiner), rel=1e-4)


@given(st.lists(st.integers(0, 8), min_size=2, max_size=40), st.floats(0, 1), st.integers(0, 5))
def test_sentences_are_held_out_whole(sentences: list[int], share: float, seed: int) -> None:
    sentences[0] = 100  # at least two different ones
    column = torch.tensor(sentences)
    rows, held = hold_out(column, share, seed)
    assert sorted([*rows.tolist(), *held.tolist()]) == list(range(len(sentences)))
    assert not {*column[rows].tolist()} & {*column[held].tolist()}
    assert len(rows)
    assert len(held)


def test_one_sentence_is_not_enough() -> None:
    with pytest.raises(SettingError, match="1 sentence"):
        hold_out(torch.zeros(5), 0.1, 1)


RULES = FitRecipe(
    learning_rate=0.1, betas=(0.9, 0.9), label_smoothing=0.0, batch=2, updates=100, evaluate_every=5,
    decay=0.5, decay_patience=1, patience=2,
)  # fmt: skip


def follow(held_out_losses: Iterable[float], recipe: FitRecipe) -> tuple[list[float], float, int, float]:
    """Train one number by steps, and return it at every check, in the end, and how the run went."""
    network, seen, script = nn.Linear(1, 1, bias=False), list[float](), iter(held_out_losses)

    def look() -> float:
        seen.append(float(network.weight.detach()))
        return next(script)

    run = train(network, lambda rows: network.weight.sum(), torch.arange(6), look, recipe, seed=1, progress=SILENT)
    return seen, float(network.weight.detach()), run.updates, run.loss


def test_training_stops_without_progress_and_keeps_the_best() -> None:
    seen, last, updates, loss = follow([9.0, 5.0, 3.0, 4.0, 4.0], RULES)  # a sixth look would raise an error
    assert (updates, loss) == (10, 3.0)
    assert last == seen[2]


def test_training_that_helps_nothing_keeps_the_first_weights() -> None:
    seen, last, updates, _ = follow([1.0, 5.0, 5.0], RULES)
    assert updates == 0
    assert last == seen[0]


def test_training_ends_with_its_updates() -> None:
    seen, last, updates, _ = follow([9.0, 8.0, 7.0, 6.0], replace(RULES, updates=15))
    assert updates == 15
    assert len(seen) == 4
    assert last == seen[-1]
