"""Which units of two languages belong together, by the sentence pairs in which they occur.

The measure is the log-likelihood ratio of Dunning (1993): how much less likely the counts would be if the two were
independent. Two units belong together if each is the best of the other. Knows nothing of text, models and files.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_Integers = NDArray[np.int64]
_DECIMALS = 6


class Association(NamedTuple):
    """Two units that belong together.

    :param together: Number of sentence pairs that have both.
    """

    source: int
    target: int
    together: int
    score: float


@dataclass(frozen=True, eq=False)
class Incidence:
    """Which units occur in which sentences.

    :param sentences: The sentence of each occurrence, from 0; each combination occurs once, in any order.
    :param units: The unit of each occurrence, from 0.
    :param lengths: The number of words of each unit.
    :param total: The number of sentences.
    """

    sentences: _Integers
    units: _Integers
    lengths: _Integers
    total: int

    @cached_property
    def counts(self) -> _Integers:
        """The number of sentences of each unit."""
        return np.bincount(self.units, minlength=len(self.lengths))

    @cached_property
    def _by_unit(self) -> tuple[_Integers, _Integers]:
        return self.sentences[np.argsort(self.units, kind="stable")], np.append(0, np.cumsum(self.counts))

    @cached_property
    def _by_sentence(self) -> tuple[_Integers, _Integers]:
        counts = np.bincount(self.sentences, minlength=self.total)
        return self.units[np.argsort(self.sentences, kind="stable")], np.append(0, np.cumsum(counts))

    def sentences_of(self, unit: int) -> _Integers:
        """Return the sentences of a unit."""
        sentences, edges = self._by_unit
        return sentences[edges[unit] : edges[unit + 1]]

    def units_in(self, sentences: _Integers) -> _Integers:
        """Return the units of some sentences, each as often as sentences have it."""
        units, edges = self._by_sentence
        starts, counts = edges[sentences], edges[sentences + 1] - edges[sentences]
        places: _Integers = np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts)
        return units[places]


def mutual_best(sources: Incidence, targets: Incidence, least: int) -> list[Association]:
    """Return the pairs of units of which each is the best of the other, in the order of the source units.

    Of equal scores, that of the longer unit is better, so that a term is not represented by one of its words.

    :param least: Sentence pairs that must have both.
    """
    best_target = np.full(len(sources.lengths), -1, np.int64)
    together_with = np.zeros(len(sources.lengths), np.int64)
    # The best source of each target so far: the score, the length, the number.
    best = (np.zeros(len(targets.lengths)), np.zeros(len(targets.lengths), np.int64))
    best_source = np.full(len(targets.lengths), -1, np.int64)
    for source in range(len(sources.lengths)):
        found, together = np.unique(targets.units_in(sources.sentences_of(source)), return_counts=True)
        found, together = found[together >= least], together[together >= least]
        scores = log_likelihood_ratio(together, sources.counts[source], targets.counts[found], sources.total)
        found, together, scores = found[scores > 0], together[scores > 0], scores[scores > 0]
        if not len(found):
            continue
        first = np.lexsort((-targets.lengths[found], -scores))[0]
        best_target[source], together_with[source] = found[first], together[first]
        length = sources.lengths[source]
        better = (scores > best[0][found]) | ((scores == best[0][found]) & (length > best[1][found]))
        best[0][found[better]], best[1][found[better]] = scores[better], length
        best_source[found[better]] = source
    return [
        Association(source, target, int(together_with[source]), float(best[0][target]))
        for source, target in enumerate(best_target.tolist())
        if target >= 0 and best_source[target] == source
    ]


def log_likelihood_ratio(together: NDArray[Any], one: int, others: NDArray[Any], total: int) -> NDArray[np.float64]:
    """Return how strongly one unit is associated with others; 0 where they occur together less often than by chance.

    :param together: Number of sentences that have both.
    :param one: Number of sentences that have the one.
    :param others: Number of sentences that have each of the others.
    :param total: Number of all sentences.
    """
    observed = np.stack([together, one - together, others - together, total - one - others + together])
    by_chance = np.stack(
        [one * others, one * (total - others), (total - one) * others, (total - one) * (total - others)]
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(observed > 0, observed * np.log(observed * (total / by_chance)), 0.0)
    # Rounded, so that tables with the same ratio are equal whatever the order of the sum.
    ratio: NDArray[np.float64] = np.round(2 * parts.sum(axis=0), _DECIMALS)
    return np.where(together * total > one * others, ratio, 0.0)
