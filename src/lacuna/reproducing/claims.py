"""The paper's claims, held against an experiment's figures. A claim that was not measured neither holds nor fails."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

from lacuna.analysis.tables import Table
from lacuna.reproducing.runs import COMPARED, REVERSE, Results
from lacuna.reproducing.tables import TITLES, bleus

# "About 90 %" in the paper; fewer than this are not about 90.
_MOST_UNKNOWN = 0.85


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim of the paper, and what became of it.

    :param holds: ``None`` where there is nothing to decide it by.
    :param figures: What was measured.
    """

    claim: str
    holds: bool | None
    figures: str

    def as_json(self) -> dict[str, Any]:
        """Return the finding for machines."""
        return asdict(self)


def check_claims(results: Results, accuracy: Table, unknown_below_four: float) -> list[Finding]:
    """Hold the paper's claims against what was measured.

    :param accuracy: From :func:`~lacuna.analysis.knowledge.accuracy_by_margin`.
    :param unknown_below_four: The share of unknown entries with a margin of 0 to 4.
    """
    return [
        _accuracy(accuracy),
        Finding(
            "About 90 % of unknown entries have a margin of 0 to 4",
            unknown_below_four >= _MOST_UNKNOWN,
            f"{unknown_below_four:.1%}",
        ),
        *(_plac_beats(results, name) for name in COMPARED if name not in ("plac", REVERSE)),
        _reverse(results),
    ]


def _accuracy(table: Table) -> Finding:
    names = [column.name for column in table.columns]
    rows = [(row[0], row[names.index("tokens")], row[names.index("accuracy")]) for row in table.rows]
    measured = [(margin, float(accuracy)) for margin, tokens, accuracy in rows if tokens and accuracy is not None]
    claim = "The model is right more often where the margin is larger"
    if len(measured) < 2:
        return Finding(claim, None, "too few dev tokens")
    (low, first), (high, last) = measured[0], measured[-1]
    rises = sum(later >= earlier for (_, earlier), (_, later) in pairwise(measured))
    steps = len(measured) - 1
    figures = f"{first:.1%} right at margin {low}, {last:.1%} at {high}; rises in {rises} of {steps} steps"
    return Finding(claim, last > first and rises >= 0.75 * steps, figures)


def _means(results: Results) -> dict[str, float]:
    return {name: fmean(bleus(results.seeds, name)) for name in COMPARED}


def _seeds(results: Results) -> str:
    count = len(bleus(results.seeds, "plac"))
    return f"mean of {count} seeds, {results.ratio:.1%} dropped"


def _plac_beats(results: Results, other: str) -> Finding:
    means = _means(results)
    figures = f"PLAC {means['plac']:.2f}, {TITLES[other].lower()} {means[other]:.2f} BLEU ({_seeds(results)})"
    return Finding(f"PLAC beats {TITLES[other].lower()} pruning at equal ratio", means["plac"] > means[other], figures)


def _reverse(results: Results) -> Finding:
    means = _means(results)
    worst = min(means, key=lambda name: means[name])
    listed = ", ".join(
        f"{TITLES[name].lower()} {means[name]:.2f}" for name in sorted(means, key=lambda name: means[name])
    )
    return Finding("Reverse pruning hurts most", worst == REVERSE, f"{listed} BLEU ({_seeds(results)})")
