"""Choosing a ratio on dev: against stores that were really pruned, and its laws on made-up losses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.combiners import Vanilla
from lacuna.errors import SettingError
from lacuna.evaluation.noninferiority import NonInferiority
from lacuna.fitting import DevSet, choose_pruning, collect_retrievals, pruning_choice
from lacuna.fitting.pruning_choice import PruningChoice, PruningTrial, _confirm, _until_exceeded
from lacuna.fitting.pruning_loss import PruningLoss, find_neighbors_of
from lacuna.fitting.vanilla import gold_log_p
from lacuna.memory import Memory, open_memory
from lacuna.models import Model
from lacuna.progress import SILENT
from lacuna.pruning import Plac, prune_store
from lacuna.pruning.pruned_store import StoreEntries
from lacuna.records import SentencePair


def most(memory: Memory, min_margin: int) -> float:
    table = StoreEntries(memory.store, SILENT)
    return float(np.count_nonzero(table.known & (table.margin >= min_margin)) / memory.store.entries)


def trial(min_margin: int, ratio: float, share: float, bound: float | None = None) -> PruningTrial:
    bound = share if bound is None else bound
    return PruningTrial(min_margin, ratio, -1.0, PruningLoss(1.0, share, share, share, share, bound))


def passing(trial: PruningTrial) -> tuple[NonInferiority, ...]:
    return tuple(NonInferiority(name, 30.0, 29.9, -0.5, 1.0) for name in ("BLEU", "chrF2"))


def failing(trial: PruningTrial) -> tuple[NonInferiority, ...]:
    return NonInferiority("BLEU", 30.0, 29.9, -0.5, 1.0), NonInferiority("chrF2", 50.0, 49.9, -1.5, 1.0)


def test_taking_neighbors_out_equals_searching_the_pruned_store(
    bundled: Model, memory: Memory, pairs: list[SentencePair], tmp_path: Path
) -> None:
    ratio = most(memory, 0) / 2
    assert ratio > 0
    prune_store(memory.store, Plac(0), tmp_path / "small", ratio=ratio, seed=3)
    combiner = Vanilla(k=2, knn_weight=0.6, temperature=5.0)
    tokens = find_neighbors_of(bundled, memory, DevSet(pairs[:5]), 64)
    keep = Plac(0).prune(StoreEntries(memory.store, SILENT), ratio=ratio, seed=3).keep
    small = open_memory(tmp_path / "small")
    real = gold_log_p(collect_retrievals(bundled, [small], DevSet(pairs[:5]), 2), combiner)
    np.testing.assert_allclose(tokens.log_p(combiner, keep), real, rtol=1e-4, atol=1e-5)


def test_a_sequence_ends_at_the_first_ratio_that_loses_too_much() -> None:
    sequence = [trial(4, 0.1, 0.0), trial(4, 0.2, 0.01, 0.03), trial(4, 0.3, 0.0)]
    asked = iter(sequence)
    assert _until_exceeded(asked, 0.02) == sequence[:2]
    assert list(asked) == sequence[2:]  # the third is not even computed


@given(
    st.lists(st.tuples(st.sampled_from([4, 8]), st.floats(-0.01, 0.1), st.floats(0, 0.02)), max_size=40),
    st.floats(0.001, 0.05),
    st.floats(0.001, 0.05),
)
def test_a_larger_loss_never_gives_a_smaller_ratio(
    made_up: list[tuple[int, float, float]], one: float, other: float
) -> None:
    def choose(max_loss: float) -> float:
        trials: list[PruningTrial] = []
        for least in (4, 8):
            losses = [(share, width) for each, share, width in made_up if each == least]
            sequence = [trial(least, 0.01 * (n + 1), share, share + width) for n, (share, width) in enumerate(losses)]
            trials += _until_exceeded(sequence, max_loss)
        chosen, _ = _confirm(trials, max_loss, passing)
        return 0.0 if chosen is None else chosen.ratio

    assert choose(min(one, other)) <= choose(max(one, other))


def test_the_smaller_loss_decides_between_settings_of_one_ratio() -> None:
    trials = [
        trial(4, 0.1, 0.001),
        trial(4, 0.2, 0.015),
        trial(8, 0.1, 0.002),
        trial(8, 0.2, 0.012),
        trial(8, 0.3, 0.5),
    ]
    chosen, done = _confirm(trials, 0.02, passing)
    assert chosen is done[3]
    assert (chosen.min_margin, chosen.ratio) == (8, 0.2)
    assert [bool(each.drops) for each in done] == [False, False, False, True, False]


def test_a_ratio_that_is_not_confirmed_gives_way_to_smaller_ones() -> None:
    trials = [trial(4, round(0.01 * step, 2), 0.001) for step in range(1, 41)]
    asked: list[float] = []

    def confirm(trial: PruningTrial) -> tuple[NonInferiority, ...]:
        asked.append(trial.ratio)
        return passing(trial) if trial.ratio < 0.25 else failing(trial)

    chosen, done = _confirm(trials, 0.02, confirm)
    assert chosen is not None
    assert asked == [0.4, 0.3, 0.2]
    assert chosen.ratio == 0.2
    assert [each.ratio for each in done if each.drops] == [0.2, 0.3, 0.4]
    chosen, done = _confirm(trials, 0.02, failing)
    assert chosen is None
    assert sum(bool(each.drops) for each in done) == 3  # and no more


def test_the_choice_is_the_largest_ratio_within_the_promise(
    bundled: Model, memory: Memory, pairs: list[SentencePair]
) -> None:
    limit = most(memory, 1)
    ratios = [limit * share for share in (0.25, 0.5, 1.0)]
    limits = {"ratios": [*ratios, 0.999], "min_margins": [0, 1], "max_drop": 100.0}
    found = choose_pruning(bundled, memory, pairs[:6], max_loss=0.9, **limits)
    assert found.adds
    assert {trial.ratio for trial in found.trials} <= set(ratios)  # 0.999 cannot be reached
    within = [trial.ratio for trial in found.trials if trial.loss.is_within(0.9)]
    assert within
    assert found.ratio == max(within)
    assert found.chosen is not None
    assert [drop.metric for drop in found.chosen.drops] == ["BLEU", "chrF2"]
    assert found.bleu == found.chosen.drops[0].baseline
    assert choose_pruning(bundled, memory, pairs[:6], max_loss=0.9, **limits) == found


def test_twice_the_dev_set_never_gives_a_smaller_ratio(
    bundled: Model, memory: Memory, pairs: list[SentencePair]
) -> None:
    def ratio(times: int) -> float:
        dev = pairs[:6] * times
        return choose_pruning(bundled, memory, dev, max_loss=0.3, min_margins=[0], max_drop=100.0, translated=2).ratio

    assert ratio(1) <= ratio(4)


def test_nothing_is_translated_if_no_ratio_is_within_the_promise(
    bundled: Model, memory: Memory, pairs: list[SentencePair], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning_choice, "dev_texts", None)
    found = choose_pruning(bundled, memory, pairs[:6], max_loss=1e-9, ratios=[most(memory, 0)], min_margins=[0])
    assert (found.pruner, found.ratio, found.bleu, found.chosen) == (None, 0.0, None, None)
    assert found.why.startswith("no ratio loses at most")


def choice_with(adds: bool, trials: tuple[PruningTrial, ...]) -> PruningChoice:
    return PruningChoice(None, 0.0, 0.02, 1.0, -0.01, adds, Vanilla(), -1.0, None, 200, trials, 0)


def test_it_says_why_nothing_is_dropped() -> None:
    assert "adds nothing for certain" in choice_with(False, ()).why
    assert "-0.0100 per token" in choice_with(False, ()).why
    assert "too few of the entries" in choice_with(True, ()).why
    assert "no ratio loses at most 2.0%" in choice_with(True, (trial(4, 0.1, 0.03),)).why
    assert "200 dev translations" in choice_with(True, (trial(4, 0.1, 0.01),)).why


@pytest.mark.parametrize("max_loss", [0.0, -0.1, 1.0, 2, float("nan")])
def test_a_loss_that_is_no_share_is_refused(
    bundled: Model, memory: Memory, pairs: list[SentencePair], max_loss: float
) -> None:
    with pytest.raises(SettingError, match=r"max_loss: got .*; allowed is a share above 0 and below 1"):
        choose_pruning(bundled, memory, pairs[:1], max_loss=max_loss)


def test_no_dev_is_refused(bundled: Model, memory: Memory) -> None:
    with pytest.raises(SettingError, match="dev: no sentence pair"):
        choose_pruning(bundled, memory, [])
