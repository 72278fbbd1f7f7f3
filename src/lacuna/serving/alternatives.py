"""Other translations of a sentence: the further hypotheses of beam search. Does not know requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lacuna.corpora.placeholders import mask, same_placeholders
from lacuna.decoding import Hypothesis, decode_all
from lacuna.models import Model
from lacuna.models.stepping import ModelScorer
from lacuna.translator import Translator
from lacuna.translator.knn_scorer import KnnScorer


def find_alternatives(translator: Translator, texts: Sequence[str], most: int) -> list[tuple[str, ...]]:
    """Return the best translation of each sentence and up to ``most`` others, better ones first.

    :param texts: Sentences that are not too long for the model.
    """
    model = translator.model
    plain = ModelScorer(model)
    scorer = KnnScorer(plain, translator.memories, translator.combiner) if translator.memories else plain
    beam = replace(translator.beam, beam=max(translator.beam.beam, most + 1))
    found = decode_all(scorer, model.encode_sources(texts), beam)
    return [
        tuple(dict.fromkeys(_written(model, text, hypotheses)))[: most + 1]
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
