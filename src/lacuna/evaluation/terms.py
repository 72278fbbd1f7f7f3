"""Accuracy on the words that a memory changes.

BLEU averages over all words, most of which a domain memory leaves as they are. This module looks at the others: words
of the reference that only one of two systems produces. It compares words as counts per segment, without their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lacuna.errors import EvaluationError
from lacuna.evaluation.scores import word_splitter


@dataclass(frozen=True, slots=True)
class TermAccuracy:
    """The accuracy of systems on the changed words.

    :param terms: Number of changed words; each occurrence in a reference counts.
    :param accuracy: By system, the share of the changed words that its translations have; empty without changed words.
    """

    terms: int
    accuracy: dict[str, float]


def term_accuracy(
    references: Sequence[str],
    plain: Sequence[str],
    adapted: Sequence[str],
    systems: Mapping[str, Sequence[str]],
    *,
    target_language: str | None = None,
) -> TermAccuracy:
    """Measure systems on the words of the reference that either ``plain`` or ``adapted`` produces, but not both.

    The accuracies of ``plain`` and of ``adapted`` themselves add up to 1.

    :param references: One reference per segment.
    :param plain: Translations without a memory.
    :param adapted: Translations with a memory.
    :param systems: Translations of the systems to measure, by name.
    """
    if any(len(lines) != len(references) for lines in (plain, adapted, *systems.values())):
        raise EvaluationError(f"terms: each of the {len(references):,} references needs one translation per system")
    words = word_splitter(references, target_language)
    terms, right = 0, dict.fromkeys(systems, 0)
    for number, reference in enumerate(references):
        wanted = Counter(words(reference))
        before, after = wanted & Counter(words(plain[number])), wanted & Counter(words(adapted[number]))
        # Word counts that both reach, and word counts that at least one of them reaches.
        least, most = before & after, before | after
        terms += most.total() - least.total()
        for name, lines in systems.items():
            right[name] += ((Counter(words(lines[number])) & most) - least).total()
    return TermAccuracy(terms, {name: count / terms for name, count in right.items()} if terms else {})
