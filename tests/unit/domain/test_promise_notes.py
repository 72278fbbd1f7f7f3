"""What the report of a domain says about pruning: what was promised, and what test shows."""

from __future__ import annotations

import pytest

from lacuna.combiners import Vanilla
from lacuna.domain.decisions import kept_note, promise_note
from lacuna.evaluation.noninferiority import NonInferiority
from lacuna.fitting import PruningLoss
from lacuna.steps import SafeRatio

DEV = PruningLoss(gain=0.5, loss=0.005, share=0.01, low=0.005, high=0.018, bound=0.017)
DROPS = NonInferiority("BLEU", 30.0, 29.9, -0.4, 1.0), NonInferiority("chrF2", 50.0, 50.1, -0.2, 1.0)
SAFE = SafeRatio(8, 0.3, 0.02, 1.0, DEV, DROPS, Vanilla())


def on_test(share: float | None, low: float | None, high: float | None) -> str:
    return kept_note(SAFE, PruningLoss(0.5, 0.005, share, low, high, high))


def test_the_promise_has_its_figures() -> None:
    note = promise_note(SAFE, 0.2999)
    assert note.startswith("PLAC dropped 30.0% of the entries, with a margin of 8 or more.")
    assert "no more than 2.0% of what the memory adds to the log-probability" in note
    assert "it loses 1.0% on dev, and with 95 % confidence no more than 1.7%" in note
    assert "BLEU 29.90 instead of 30.00 and chrF2 50.10 instead of 50.00" in note
    assert "neither drops by 1 or more" in note


@pytest.mark.parametrize(
    ("share", "low", "high", "verdict"),
    [
        (0.015, 0.005, 0.025, "loses 1.5% (95 % interval 0.5% to 2.5%): the promise is kept."),
        (0.02, 0.01, 0.03, "the promise is kept."),
        (0.025, 0.015, 0.035, "the promise may not be kept: the test set is too small to tell."),
        (0.03, 0.021, 0.04, "the promise is not kept."),
        (0.01, 0.005, None, "(95 % interval 0.5% to unknown): the promise is kept."),
        (None, None, None, "so the promise of pruning cannot be tested."),
    ],
)
def test_what_test_shows(share: float | None, low: float | None, high: float | None, verdict: str) -> None:
    assert on_test(share, low, high).endswith(verdict)
