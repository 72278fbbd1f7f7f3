"""The objective of fitting against the whole vocabulary, held-out sentences, and the training loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from lacuna.combiners import Adaptive, Kster, Neighbors, Vanilla
from lacuna.combiners.interpolation import Weighing
from lacuna.errors import SettingError
from lacuna.fitting.objective import FitRecipe, hold_out, losses, perplexity, train
from lacuna.progress import SILENT
from unit.combiners.neighborhoods import DIMENSION, VOCABULARY, make_cache, make_neighbors

SMOOTHING = 0.05


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
