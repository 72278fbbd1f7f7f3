"""The paper's claims, held against an experiment's figures.

A claim that was not measured neither holds nor fails, nor does one about a difference that chance could make.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any, Literal

from lacuna.analysis.tables import Table
from lacuna.reproduction.comparison import COMPARED, REVERSE, Results
from lacuna.reproduction.paper_tables import TITLES, bleus

Verdict = Literal["holds", "within noise", "does not hold", "not measured"]

# "About 90 %" in the paper; fewer than this are not about 90.
_MOST_UNKNOWN = 0.85
# Standard errors beyond which a difference between two shares is taken for real.
_SURE = 1.96
# A difference that fewer drawn test sets than this contradict is taken for real.
_LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim of the paper, and what became of it.

    :param figures: What was measured.
    """

    claim: str
    verdict: Verdict
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
            _verdict(unknown_below_four >= _MOST_UNKNOWN),
            f"{unknown_below_four:.1%}",
        ),
        *(_plac_beats(results, name) for name in COMPARED if name not in ("plac", REVERSE)),
        _reverse(results),
    ]


def _accuracy(table: Table) -> Finding:
    names = [column.name for column in table.columns]
    rows = [(row[0], row[names.index("tokens")], row[names.index("accuracy")]) for row in table.rows]
    measured = [(margin, int(tokens), float(share)) for margin, tokens, share in rows if tokens and share is not None]
    claim = "The model is right more often where the margin is larger"
    if len(measured) < 2:
        return Finding(claim, "not measured", "too few dev tokens")
    (low, *first), (high, *last) = measured[0], measured[-1]
    falls = sum(_z(before, after) < -_SURE for (_, *before), (_, *after) in pairwise(measured))
    figures = f"{first[1]:.1%} right at margin {low}, {last[1]:.1%} at {high}; "
    figures += f"{falls or 'none'} of {len(measured) - 1} steps falls by more than chance"
    return Finding(claim, _verdict(_z(first, last) > _SURE and not falls), figures)


def _z(before: list[float], after: list[float]) -> float:
    """Return by how many standard errors a share of tokens rises: of ``(tokens, share)`` each."""
    (few, low), (many, high) = before, after
    pooled = (few * low + many * high) / (few + many)
    error = math.sqrt(pooled * (1 - pooled) * (1 / few + 1 / many))
    return (high - low) / error if error else 0.0


def _means(results: Results) -> dict[str, float]:
    return {name: fmean(bleus(results.seeds, name)) for name in COMPARED}


def _seeds(results: Results) -> str:
    count = len(bleus(results.seeds, "plac"))
    return f"mean of {count} seeds, {results.ratio:.1%} dropped"


def _verdict(holds: bool) -> Verdict:
    return "holds" if holds else "does not hold"


def _plac_beats(results: Results, other: str) -> Finding:
    means, sure = _means(results), results.at_least
    if sure[other]["plac"] < _LEVEL:
        verdict: Verdict = "holds"
    else:
        verdict = "does not hold" if sure["plac"][other] < _LEVEL else "within noise"
    name = TITLES[other].lower()
    figures = f"PLAC {means['plac']:.2f}, {name} {means[other]:.2f} BLEU ({_seeds(results)})"
    against = f"{name} is as good on {sure[other]['plac']:.1%} of drawn test sets"
    return Finding(f"PLAC beats {name} pruning at equal ratio", verdict, f"{figures}; {against}")


def _reverse(results: Results) -> Finding:
    means, sure = _means(results), results.at_least
    others = [name for name in COMPARED if name != REVERSE]
    if all(sure[REVERSE][name] < _LEVEL for name in others):
        verdict: Verdict = "holds"
    else:
        verdict = "does not hold" if any(sure[name][REVERSE] < _LEVEL for name in others) else "within noise"
    listed = ", ".join(
        f"{TITLES[name].lower()} {means[name]:.2f}" for name in sorted(means, key=lambda name: means[name])
    )
    return Finding("Reverse pruning hurts most", verdict, f"{listed} BLEU ({_seeds(results)})")
