"""Find translations that look cut off or run on: too short or too long for their source.

A translation much shorter than its source is compared with what the model alone would say, if a memory took part. Such
sentences are few, so the second translation costs little. Knows tokens only, no text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lacuna.combiners.exact_contexts import same_context
from lacuna.decoding import Hypothesis
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.translator.retrieval import find_neighbors

CUT = "much shorter than the source; something may be missing"
RUN_ON = "much longer than the source; something may be repeated"

# Sources with fewer tokens are not checked: a word or two may have a translation of any length.
_MIN_SOURCE = 10
# Tokens of the translation for each token of the source. Of the references of clean dev sets, 2 to 5 % are below
# _SHORT, and less than 1 % beyond the other two.
_VERY_SHORT, _SHORT, _LONG = 0.4, 0.6, 2.5
# Share of the tokens of the model alone below which a short translation looks cut.
_SHARE_OF_MODEL = 0.6

Sources = Sequence[Sequence[int]]


class LengthCheck:
    """Flags translations by their length.

    :param memories: Those that took part; where they have the very same sentence, its length is right.
    :param translate_alone: Translates sources with the model alone and returns the tokens of each.
    """

    def __init__(
        self, model: Model, memories: Sequence[Memory], translate_alone: Callable[[Sources], list[Sequence[int]]]
    ) -> None:
        self._model, self._memories, self._translate_alone = model, memories, translate_alone

    def flags(self, sources: Sources, found: Sequence[Hypothesis]) -> list[str]:
        """Return for each translation why it should be looked at; empty without reason."""
        ratios = [_ratio(source, hypothesis.tokens) for source, hypothesis in zip(sources, found, strict=True)]
        flags = [CUT if ratio < _VERY_SHORT else RUN_ON if ratio > _LONG else "" for ratio in ratios]
        if not self._memories:
            return flags
        odd = [number for number, ratio in enumerate(ratios) if not _SHORT <= ratio <= _LONG]
        for number in [number for number in odd if self._is_remembered(sources[number], found[number].tokens)]:
            flags[number] = ""
            odd.remove(number)
        short = [number for number in odd if not flags[number]]
        alone = self._translate_alone([sources[number] for number in short]) if short else []
        for number, tokens in zip(short, alone, strict=True):
            if len(found[number].tokens) < _SHARE_OF_MODEL * len(tokens):
                flags[number] = CUT
        return flags

    def _is_remembered(self, source: Sequence[int], tokens: Sequence[int]) -> bool:
        """Return whether a memory has this very translation of this source: a person wanted it so short."""
        forced = self._model.teacher_force([source], [tokens])
        last = find_neighbors(self._memories, forced.keys[-1:], 1).neighbors
        return bool(same_context(last).any()) and int(last.values[0, 0]) == tokens[-1]


def _ratio(source: Sequence[int], target: Sequence[int]) -> float:
    """Return the tokens of a translation for each token of its source; 1 where that says nothing."""
    if len(source) < _MIN_SOURCE or not target:
        return 1.0
    return len(target) / len(source)
