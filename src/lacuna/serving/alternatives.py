"""Other translations of a sentence: the further hypotheses of beam search. Does not know requests."""

from __future__ import annotations

from collections.abc import Sequence

from lacuna.corpora.placeholders import mask, same_placeholders
from lacuna.decoding import Hypothesis
from lacuna.models import Model
from lacuna.translator import Translator


def find_alternatives(translator: Translator, texts: Sequence[str], most: int) -> list[tuple[str, ...]]:
    """Return the best translation of each sentence and up to ``most`` others, better ones first.

    :param texts: Sentences that are not too long for the model.
    """
    found = translator.find_hypotheses(texts, most + 1)
    return [
        tuple(dict.fromkeys(_written(translator.model, text, hypotheses)))[: most + 1]
        for text, hypotheses in zip(texts, found, strict=True)
    ]


def _written(model: Model, text: str, hypotheses: Sequence[Hypothesis]) -> list[str]:
    """Return the hypotheses that have the placeholders of the source, as text."""
    decoded = [model.decode(one.tokens) for one in hypotheses]
    if not model.mask_placeholders:
        return decoded
    masked = mask(text)
    restored = [masked.restore(one) for one in decoded]
    return [one for one in restored if one is not None and same_placeholders(text, one)]
