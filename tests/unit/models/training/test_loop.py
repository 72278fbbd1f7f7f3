"""Learning rate, evaluation interval, early stopping and old checkpoints, by hand-worked values."""

from __future__ import annotations

import math

import pytest

from lacuna.models.training.finetuning import evaluation_interval
from lacuna.models.training.loop import Counters, learning_rate_factor


def judged(sequence: list[float], patience: int) -> Counters:
    counters = Counters(before=50.0, best=50.0)
    for perplexity in sequence:
        counters.step += 10
        counters.judge(perplexity, patience)
        if counters.stopped:
            break
    return counters


def test_the_run_stops_early_after_patience_evaluations_without_improvement() -> None:
    counters = judged([40.0, 42.0, 39.0, 39.0, 41.0, 45.0, 1.0], patience=3)
    assert (counters.step, counters.best_step, counters.best) == (60, 30, 39.0)
    assert counters.stopped == "no better on dev"


def test_an_improvement_resets_the_patience() -> None:
    counters = judged([51.0, 49.0, 52.0, 48.0, 53.0], patience=2)
    assert (counters.stopped, counters.best_step, counters.worse) == ("", 40, 1)


def test_patience_0_never_stops_early() -> None:
    assert judged([60.0] * 20, patience=0).stopped == ""


@pytest.mark.parametrize("bad", [50.0, 50.1, math.inf, math.nan])
def test_without_improvement_the_original_stays_best(bad: float) -> None:
    counters = judged([bad, bad], patience=2)
    assert (counters.best_step, counters.best, counters.stopped) == (0, 50.0, "no better on dev")


def test_the_limit_takes_precedence_over_early_stopping() -> None:
    counters = Counters(step=9, best=5.0, worse=7, stopped="limit reached")
    counters.judge(6.0, patience=1)
    assert counters.stopped == "limit reached"


@pytest.mark.parametrize(
    ("step", "finished", "factor"),
    [(0, 0.0, 0.01), (49, 0.0, 0.5), (99, 0.1, 1.0), (500, 0.6, 1.0), (700, 0.8, 0.5), (899, 1.0, 0.0)],
)
def test_learning_rate_warms_up_stays_and_decays(step: int, finished: float, factor: float) -> None:
    assert learning_rate_factor(step, finished, warmup_steps=100, decay_share=0.4) == pytest.approx(factor)


@pytest.mark.parametrize(
    ("step", "finished", "factor"), [(0, 0.0, 0.1), (9, 0.1, 0.9), (50, 0.5, 0.5), (75, 0.75, 0.25)]
)
def test_learning_rate_of_fine_tuning_decays_from_the_start(step: int, finished: float, factor: float) -> None:
    assert learning_rate_factor(step, finished, warmup_steps=10, decay_share=1.0) == pytest.approx(factor)


@pytest.mark.parametrize(
    ("epoch_steps", "limit", "dev_batches", "expected"),
    [
        (400, 4000, 10, 100),  # four per epoch
        (400, 160, 4, 20),  # eight per run if it is short
        (40, 400, 30, 60),  # less often if dev is large
        (40_000, None, 10, 1000),  # at least every 1000 steps
        (1, 10, 0, 1),
    ],
)
def test_evaluation_interval(epoch_steps: int, limit: int | None, dev_batches: int, expected: int) -> None:
    assert evaluation_interval(epoch_steps, limit, dev_batches) == expected


def test_counters_of_version_0_1_are_restored() -> None:
    content = {"step": 25, "tokens": 7, "seconds": 1.5, "before": 9.0, "best": 8.0, "best_step": 20, "worse": 0}
    counters = Counters.restore(content | {"stopped": "", "curve": [[20, 1.0, 8.0]]}, epoch_steps=10)
    assert (counters.epoch, counters.batch, counters.snapshots) == (2, 5, [20])
    assert (counters.step, counters.before, counters.best) == (25, 9.0, 8.0)
