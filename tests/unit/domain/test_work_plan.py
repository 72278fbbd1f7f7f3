"""The plan of an adaptation: what a time limit leaves out, in which order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.domain.work_plan import WorkPlan, limit

LARGE = WorkPlan(
    read=0.01, translate=0.05, tokens=20.0, train=20_000, dev=1000, test=500, fits=True, prune=True, gate=True
)


def test_a_plan_within_the_limit_stays() -> None:
    assert limit(LARGE, LARGE.total()) == LARGE


def test_optional_steps_go_first_and_the_memory_last() -> None:
    plans = [limit(LARGE, share * LARGE.total()) for share in (0.99, 0.6, 0.35, 0.05)]
    assert not plans[0].gate
    assert plans[0].prune
    assert not plans[2].prune
    assert [plan.train == LARGE.train for plan in plans] == [True, True, True, False]
    assert plans[-1].dev < LARGE.dev
    assert all(plan.notes for plan in plans)


@given(st.floats(1, 10_000))
def test_a_limit_is_kept_or_everything_is_at_its_least(seconds: float) -> None:
    plan = limit(LARGE, seconds)
    least = not (plan.gate or plan.prune) and plan.approximate and max(plan.dev, plan.test) <= 200 and plan.train <= 200
    assert plan.total() <= seconds or least
    assert plan.train >= 200


def test_steps_that_are_left_out_take_no_time() -> None:
    small = WorkPlan(
        read=0.01, translate=0.1, tokens=20.0, train=30, dev=0, test=0, fits=False, prune=False, gate=False
    )
    assert list(small.seconds()) == ["store", "index", "margin"]
    assert list(LARGE.seconds())[3:] == ["safe", "prune", "loss", "fit", "gate", "calibrate", "translate", "score"]


def test_an_optional_step_leaves_time_for_those_that_must_follow() -> None:
    seconds = LARGE.seconds()
    must = sum(seconds[name] for name in ("calibrate", "translate", "score"))
    assert LARGE.seconds_from("gate") == pytest.approx(seconds["gate"] + must)
    assert LARGE.seconds_from("safe") == pytest.approx(
        seconds["safe"] + seconds["prune"] + seconds["loss"] + seconds["fit"] + must
    )


def test_a_plan_survives_json() -> None:
    plan = limit(LARGE, 60)
    assert WorkPlan.from_json(plan.as_json()) == plan
