"""Other translations of a sentence: the further hypotheses of beam search. Knows nothing of HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lacuna.corpora.placeholders import mask, same_placeholders
from lacuna.decoding import Hypothesis
from lacuna.documents.paragraphs import CheckTranslation
from lacuna.errors import UnavailableError
from lacuna.models import Model
from lacuna.translator import Translator


class Alternatives(NamedTuple):
    """Translations of a sentence, better ones first.

    :param without_memory: Whether the model found them alone because a memory did not answer.
    """

    texts: tuple[str, ...] = ()
    without_memory: bool = False


def find_alternatives(
    translator: Translator, texts: Sequence[str], most: int, check: CheckTranslation
) -> list[Alternatives]:
    """Return the best translation of each sentence and up to ``most`` others.

    :param texts: Sentences that are not too long for the model.
    :param check: Translations with which something is wrong, such as a missing term, are left out.
    """
    try:
        return [Alternatives(translations) for translations in _search(translator, texts, most, check)]
    except UnavailableError:
        if not translator.system.fallback:
            raise
    alone = translator.with_memories(())
    return [Alternatives(translations, True) for translations in _search(alone, texts, most, check)]


def _search(translator: Translator, texts: Sequence[str], most: int, check: CheckTranslation) -> list[tuple[str, ...]]:
    found = []
    for text, hypotheses in zip(texts, translator.find_hypotheses(texts, most + 1), strict=True):
        written = dict.fromkeys(_written(translator.model, text, hypotheses))
        found.append(tuple(translation for translation in written if not check(text, translation))[: most + 1])
    return found


def _written(model: Model, text: str, hypotheses: Sequence[Hypothesis]) -> list[str]:
    """Return the hypotheses that have the placeholders of the source, as text."""
    decoded = [model.decode(hypothesis.tokens) for hypothesis in hypotheses]
    if not model.mask_placeholders:
        return decoded
    masked = mask(text)
    restored = [masked.restore(translation) for translation in decoded]
    return [translation for translation in restored if translation is not None and same_placeholders(text, translation)]
