"""When a run looks at dev, when it ends, and what it then keeps: by hand-worked sequences."""

from __future__ import annotations

import math

import pytest

from lacuna.errors import SettingError
from lacuna.models.finetuning.loop import Counters, evaluation_interval
from lacuna.models.finetuning.settings import FinetuneSettings, LoraSettings


def judged(sequence: list[float], patience: int) -> Counters:
    counters = Counters(before=50.0, best=50.0)
    for perplexity in sequence:
        counters.step += 10
        counters.judge(perplexity, patience)
        if counters.stopped:
            break
    return counters


def test_the_run_ends_when_dev_has_not_been_better_for_a_while() -> None:
    counters = judged([40.0, 42.0, 39.0, 39.0, 41.0, 45.0, 1.0], patience=3)
    assert (counters.step, counters.best_step, counters.best) == (60, 30, 39.0)
    assert counters.stopped == "no better on dev"


def test_a_gain_starts_the_patience_anew() -> None:
    counters = judged([51.0, 49.0, 52.0, 48.0, 53.0], patience=2)
    assert (counters.stopped, counters.best_step, counters.worse) == ("", 40, 1)


def test_without_patience_it_never_ends_early() -> None:
    assert judged([60.0] * 20, patience=0).stopped == ""


@pytest.mark.parametrize("bad", [50.0, 50.1, math.inf, math.nan])
def test_what_is_no_better_leaves_the_original(bad: float) -> None:
    counters = judged([bad, bad], patience=2)
    assert (counters.best_step, counters.best, counters.stopped) == (0, 50.0, "no better on dev")


def test_another_reason_to_end_is_not_overwritten() -> None:
    counters = Counters(step=9, best=5.0, worse=7, stopped="limit reached")
    counters.judge(6.0, patience=1)
    assert counters.stopped == "limit reached"


@pytest.mark.parametrize(
    ("epoch_steps", "limit", "dev_batches", "expected"),
    [
        (400, 4000, 10, 100),  # four times an epoch
        (400, 160, 4, 20),  # a short run is looked at eight times
        (40, 400, 30, 60),  # a large dev set is looked at rarely
        (40_000, None, 10, 1000),  # a huge corpus often enough to lose little
        (1, 10, 0, 1),
    ],
)
def test_how_often_dev_is_looked_at(epoch_steps: int, limit: int | None, dev_batches: int, expected: int) -> None:
    assert evaluation_interval(epoch_steps, limit, dev_batches) == expected


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, 1000),
        ({"epochs": 2.5}, 250),
        ({"steps": 30}, 30),
        ({"steps": 300, "epochs": 2.0}, 200),
        ({"hours": 1.0}, None),
        ({"hours": 1.0, "steps": 7}, 7),
        ({"epochs": 0.001}, 1),
    ],
)
def test_the_first_limit_counts(limits: dict[str, float], expected: int | None) -> None:
    assert FinetuneSettings(**limits).step_limit(epoch_steps=100) == expected  # type: ignore[arg-type]


def test_adapters_learn_faster_unless_told_otherwise() -> None:
    full, lora = FinetuneSettings(), FinetuneSettings(lora=LoraSettings())
    assert lora.rate > full.rate
    assert FinetuneSettings(lora=LoraSettings(), learning_rate=0.5).rate == 0.5
    assert (LoraSettings(rank=3).strength, LoraSettings(rank=3, alpha=4).strength) == (6, 4)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("steps", 0, "1 or more"),
        ("epochs", 0.0, "more than 0"),
        ("hours", -1.0, "more than 0"),
        ("learning_rate", 0.0, "more than 0"),
        ("dropout", 1.0, "less than 1"),
        ("label_smoothing", -0.1, "0 or more"),
        ("patience", -1, "0 or more"),
        ("batch_tokens", 0, "1 or more"),
    ],
)
def test_bad_settings_are_refused(name: str, value: float, allowed: str) -> None:
    with pytest.raises(SettingError, match=f"^{name}: got {value}; allowed is .*{allowed}"):
        FinetuneSettings(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [{"rank": 0}, {"alpha": 0}, {"dropout": 1.0}, {"targets": ()}])
def test_bad_adapter_settings_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(SettingError, match="allowed is"):
        LoraSettings(**bad)  # type: ignore[arg-type]
