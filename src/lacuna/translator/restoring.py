"""Put placeholders back into translations, and try again if the model has lost or doubled one.

The best hypothesis of beam search that has every placeholder exactly once is taken. If there is none, the sentence is
translated again with a wide beam and then with other stand-ins; at last in parts, around its placeholders, which keeps
them in any case but not the grammar, so such a translation is flagged. So is one whose accelerator is at another word,
or whose amounts of money differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lacuna.corpora.accelerators import may_be_accelerator
from lacuna.corpora.amounts import same_amounts
from lacuna.corpora.placeholders import STYLES, Masked, mask, placeholder_spans, same_placeholders, without_accelerator
from lacuna.decoding import Hypothesis
from lacuna.models import Model
from lacuna.records import Step, Translation

IN_PARTS = "placeholders lost; translated in parts"
DIFFERENT = "other placeholders than in the source"
MOVED = "accelerator at another word"
UNCLEAR = "an identifier, or a word with an accelerator"
AMOUNTS = "other amounts of money than in the source"

Search = Callable[[list[str]], list[list[Hypothesis]]]
"""Translates texts as they are, and returns the hypotheses of each, the best first."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A translation with its placeholders.

    :param hypothesis: Tokens as the model reads them, with stand-ins of the first style.
    :param flag: Why a person should look at it; empty without reason.
    """

    text: str
    hypothesis: Hypothesis
    flag: str = ""

    def flagged(self, flag: str) -> Restored:
        """Return the translation with one more reason to look at it, if it is not empty."""
        return self if not flag else replace(self, flag="; ".join(filter(None, (self.flag, flag))))

    def translation(self, source: str, steps: tuple[Step, ...], alone: bool, confidence: float | None) -> Translation:
        """Return the finished translation.

        :param alone: Whether the model made it alone because a memory did not answer.
        """
        tokens = self.hypothesis.tokens
        return Translation(
            source, self.text, self.hypothesis.score, len(tokens), steps, tokens, alone, self.flag, confidence
        )


def check_translation(source: str, text: str) -> str:
    """Say why a person should look at a translation, by what it must have in common with its source; or nothing."""
    if not same_placeholders(source, text):
        return DIFFERENT
    return "" if same_amounts(source, text) else AMOUNTS


class Restorer:
    """Chooses among hypotheses by their placeholders, and translates again where none will do.

    :param search: How texts are translated again: with a wide beam.
    """

    def __init__(self, model: Model, search: Search) -> None:
        self._model, self._search = model, search

    def restore(self, sources: Sequence[str], found: Sequence[Sequence[Hypothesis]]) -> list[Restored]:
        """Return one translation for each source.

        :param found: The hypotheses of each source, which was masked in the first style.
        """
        if not self._model.mask_placeholders:
            return [Restored(self._model.decode(hypotheses[0].tokens), hypotheses[0]) for hypotheses in found]
        results = [
            self._choose(source, mask(source), hypotheses) for source, hypotheses in zip(sources, found, strict=True)
        ]
        for style in range(STYLES):
            self._fill(sources, results, style)
        lost = [number for number, result in enumerate(results) if result is None]
        parts = self._in_parts([sources[number] for number in lost]) if lost else []
        for number, result in zip(lost, parts, strict=True):
            results[number] = result
        return [result for result in results if result is not None]

    def choose(self, source: str, hypotheses: Sequence[Hypothesis], accepts: Callable[[str], bool]) -> Restored | None:
        """Return the best hypothesis that has every placeholder and whose text is accepted; None if there is none.

        :param hypotheses: Those of the source, masked in the first style.
        """
        masked = mask(source) if self._model.mask_placeholders else None
        for hypothesis in hypotheses:
            if masked is None:
                result: Restored | None = Restored(self._model.decode(hypothesis.tokens), hypothesis)
            else:
                result = self._choose(source, masked, [hypothesis])
            if result is not None and result.flag in ("", MOVED, UNCLEAR) and accepts(result.text):
                return result
        return None

    def _choose(self, source: str, masked: Masked, hypotheses: Sequence[Hypothesis]) -> Restored | None:
        best: Restored | None = None
        for hypothesis in hypotheses:
            text = masked.restore(self._model.decode(hypothesis.tokens))
            if text is None or not same_placeholders(source, text):
                continue
            if same_amounts(source, text):
                return Restored(text, hypothesis, _flag(source, masked, text))
            best = best or Restored(text, hypothesis, AMOUNTS)
        if best is not None or masked.stand_ins:
            return best
        # The model made up a placeholder where the source has none; other stand-ins would not help.
        made_up = self._model.decode(hypotheses[0].tokens)
        return Restored(masked.restore(made_up) or made_up, hypotheses[0], DIFFERENT)

    def _fill(self, sources: Sequence[str], results: list[Restored | None], style: int) -> None:
        """Translate again what has no result yet, with stand-ins of a style."""
        lost = [number for number, result in enumerate(results) if result is None]
        if not lost:
            return
        masked = [mask(sources[number], style) for number in lost]
        for number, masked_source, hypotheses in zip(
            lost, masked, self._search([each.text for each in masked]), strict=True
        ):
            result = self._choose(sources[number], masked_source, hypotheses)
            results[number] = None if result is None else self._retokenized(result)

    def _in_parts(self, sources: Sequence[str]) -> list[Restored]:
        """Translate the text between placeholders, part by part."""
        plain = [without_accelerator(source) for source in sources]
        cut = [_cut(source) for source, _ in plain]
        texts = [part.text for parts in cut for part in parts if part.translated]
        hypotheses = iter(self._search(texts) if texts else [])
        results = []
        for parts, (_, accelerator) in zip(cut, plain, strict=True):
            written, score, tokens = [], 0.0, 0
            for part in parts:
                if not part.translated:
                    written.append(part.text)
                    continue
                best = next(hypotheses)[0]
                written.append(part.spaced(self._model.decode(best.tokens)))
                score, tokens = score + best.score * len(best.tokens), tokens + len(best.tokens)
            text = "".join(written)
            text = text if accelerator is None else accelerator.put_back(text, placeholder_spans(text))
            hypothesis = Hypothesis((), score / max(1, tokens), (), ())
            results.append(self._retokenized(Restored(text, hypothesis, IN_PARTS)))
        return results

    def _retokenized(self, result: Restored) -> Restored:
        """Give a translation the tokens that explanations expect."""
        [ids] = self._model.encode_targets([result.text])
        if len(ids) >= self._model.max_length:  # too long to be explained
            ids = []
        hypothesis = Hypothesis(tuple(ids), result.hypothesis.score, (), (0.0,) * len(ids))
        return Restored(result.text, hypothesis, result.flag)


def _flag(source: str, masked: Masked, text: str) -> str:
    """Say why a person should look at the accelerator of a translation; or nothing."""
    if masked.accelerator is not None and not masked.accelerator.is_certain(text):
        return MOVED
    return UNCLEAR if may_be_accelerator(source) else ""


@dataclass(frozen=True, slots=True)
class _Part:
    """A placeholder, or the text between two of them."""

    text: str
    translated: bool

    def spaced(self, translation: str) -> str:
        """Return a translation with the white space around the text."""
        start = len(self.text) - len(self.text.lstrip())
        end = len(self.text.rstrip())
        return self.text[:start] + translation.strip() + self.text[end:]


_LETTER = re.compile(r"[^\W\d_]")


def _cut(source: str) -> list[_Part]:
    parts, last = [], 0
    for start, end in [*placeholder_spans(source), (len(source), len(source))]:
        between = source[last:start]
        if between:
            parts.append(_Part(between, _LETTER.search(between) is not None))
        if end > start:
            parts.append(_Part(source[start:end], False))
        last = end
    return parts
