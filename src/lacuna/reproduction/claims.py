"""Checks of the paper's claims against the results of an experiment.

A claim that was not measured gets no yes or no, and neither does one about a difference that chance could explain.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any, Literal

from lacuna.reproduction.comparison import COMPARED, REVERSE, WHOLE, ComparisonResults
from lacuna.reproduction.paper_tables import TITLES, bleus
from lacuna.reproduction.tables import Table

Verdict = Literal["holds", "within noise", "does not hold", "not measured"]

# The paper says "about 90 %"; a smaller share than this does not support it.
_MIN_UNKNOWN_SHARE = 0.85
# Standard errors from which a difference between two shares is significant.
_MIN_Z = 1.96
# A difference is significant if a smaller share of bootstrap samples than this contradicts it.
_LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class CheckedClaim:
    """A claim of the paper and its verdict.

    :param figures: The measured figures that decide.
    """

    claim: str
    verdict: Verdict
    figures: str

    def as_json(self) -> dict[str, Any]:
        """Return the claim as JSON."""
        return asdict(self)


def check_claims(results: ComparisonResults, accuracy: Table | None, unknown_up_to_four: float) -> list[CheckedClaim]:
    """Check the paper's claims against the measured figures.

    :param accuracy: From :func:`~lacuna.reproduction.knowledge_tables.accuracy_by_margin`.
    :param unknown_up_to_four: Share of the unknown entries with a margin of 0 to 4.
    """
    return [
        _accuracy(accuracy),
        CheckedClaim(
            "About 90 % of unknown entries have a margin of 0 to 4",
            _verdict(unknown_up_to_four >= _MIN_UNKNOWN_SHARE),
            f"{unknown_up_to_four:.1%}",
        ),
        *(_of_seeds(results) if results.seeds else ()),
    ]


def _of_seeds(results: ComparisonResults) -> list[CheckedClaim]:
    """Check the claims about differences between methods."""
    return [
        _without_loss(results),
        *(_plac_beats(results, name) for name in COMPARED if name not in ("plac", REVERSE)),
        _reverse(results),
    ]


def _accuracy(table: Table | None) -> CheckedClaim:
    claim = "The model is right more often where the margin is larger"
    if table is None:
        return CheckedClaim(claim, "not measured", "no results")
    names = [column.name for column in table.columns]
    rows = [(row[0], row[names.index("tokens")], row[names.index("accuracy")]) for row in table.rows]
    measured = [(margin, int(tokens), float(share)) for margin, tokens, share in rows if tokens and share is not None]
    if len(measured) < 2:
        return CheckedClaim(claim, "not measured", "too few dev tokens")
    (low, *first), (high, *last) = measured[0], measured[-1]
    falls = sum(_z(before, after) < -_MIN_Z for (_, *before), (_, *after) in pairwise(measured))
    figures = f"{first[1]:.1%} right at margin {low}, {last[1]:.1%} at {high}; "
    figures += f"{falls or 'none'} of {len(measured) - 1} steps falls by more than chance"
    return CheckedClaim(claim, _verdict(_z(first, last) > _MIN_Z and not falls), figures)


def _z(before: list[float], after: list[float]) -> float:
    """Return the z statistic of an increase between two ``(tokens, share)`` measurements."""
    (few, low), (many, high) = before, after
    pooled = (few * low + many * high) / (few + many)
    error = math.sqrt(pooled * (1 - pooled) * (1 / few + 1 / many))
    return (high - low) / error if error else 0.0


def _means(results: ComparisonResults) -> dict[str, float]:
    return {name: fmean(bleus(results.seeds, name)) for name in COMPARED}


def _seeds(results: ComparisonResults) -> str:
    count = len(bleus(results.seeds, "plac"))
    seeds = f"mean of {count} seeds" if count > 1 else "one seed"
    return f"{seeds}, {results.ratio:.1%} dropped"


def _verdict(holds: bool) -> Verdict:
    return "holds" if holds else "does not hold"


def _without_loss(results: ComparisonResults) -> CheckedClaim:
    """Check the paper's main claim: PLAC is not significantly below the whole memory."""
    means, difference = _means(results), results.differences["plac"][WHOLE]
    rank = 1 + sum(means[name] > means["plac"] for name in COMPARED)
    figures = f"{difference.bleu:+.2f} BLEU (95 % interval {difference.low:+.2f} to {difference.high:+.2f}; "
    figures += f"{_seeds(results)}); PLAC is number {rank} of {len(COMPARED)} methods"
    claim = f"PLAC drops {results.ratio:.0%} of the entries without a significant loss"
    return CheckedClaim(claim, _verdict(difference.at_least >= _LEVEL), figures)


def _plac_beats(results: ComparisonResults, other: str) -> CheckedClaim:
    means, difference = _means(results), results.differences["plac"][other]
    as_good = results.differences[other]["plac"].at_least
    if as_good < _LEVEL:
        verdict: Verdict = "holds"
    else:
        verdict = "does not hold" if difference.at_least < _LEVEL else "within noise"
    name = TITLES[other].lower()
    figures = f"PLAC {means['plac']:.2f}, {name} {means[other]:.2f} BLEU ({_seeds(results)})"
    against = f"{difference.bleu:+.2f} (95 % interval {difference.low:+.2f} to {difference.high:+.2f})"
    return CheckedClaim(f"PLAC beats {name} pruning at equal ratio", verdict, f"{figures}; {against}")


def _reverse(results: ComparisonResults) -> CheckedClaim:
    means, differences = _means(results), results.differences
    others = [name for name in COMPARED if name != REVERSE]
    if all(differences[REVERSE][name].at_least < _LEVEL for name in others):
        verdict: Verdict = "holds"
    elif any(differences[name][REVERSE].at_least < _LEVEL for name in others):
        verdict = "does not hold"
    else:
        verdict = "within noise"
    listed = ", ".join(
        f"{TITLES[name].lower()} {means[name]:.2f}" for name in sorted(means, key=lambda name: means[name])
    )
    return CheckedClaim("Reverse pruning hurts most", verdict, f"{listed} BLEU ({_seeds(results)})")
