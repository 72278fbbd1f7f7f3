"""Tell the language of a text.

The model is that of py3langid: naive Bayes over byte n-grams, 138 languages, 4.5 MB, part of the package, so nothing is
downloaded. One sentence is enough; one to three words often are not, unless the choice is between few languages. Does
not tell variants of Chinese apart. Knows nothing of documents and models.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from lacuna.errors import needs_extra

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

# Characters that are looked at; more make no difference.
_ENOUGH = 5_000
# Less likely languages are not listed.
_MIN_PROBABILITY = 0.01
_CHINESE = ("wuu", "yue", "zh")
_NO_LANGUAGE = "zxx"

_loading = Lock()


class Detected(NamedTuple):
    """A language that a text may be in.

    :param language: ISO code without a region; ``zh`` for all variants of Chinese.
    :param confidence: Probability from 0 to 1.
    """

    language: str
    confidence: float


def detect(text: str, among: Sequence[str] | None = None) -> list[Detected]:
    """Return the languages that a text may be in, the most likely first.

    The list is empty if the text has no letters, or only letter sequences that say nothing about its language. May be
    called from several threads. The first call loads the model, which takes about a second.

    :param among: ISO codes of the possible languages; regions and codes that the model does not know are ignored.
    :raises MissingExtra: py3langid is not installed.
    """
    text = text[:_ENOUGH]
    if not any(map(str.isalpha, text)):
        return []
    with _loading:  # the caches alone would let two threads load the model
        identifier = _identifier(None if among is None else frozenset(map(_base, among)))
    ranked = identifier.rank(text) if identifier else []
    confidences: Counter[str] = Counter()
    for label, confidence in ranked:
        confidences[_code(label)] += confidence
    if len(confidences) > 1 and _is_uniform([confidence for _, confidence in ranked]):
        return []
    del confidences[_NO_LANGUAGE]
    # Rounding may give a little more than 1.
    return [Detected(code, min(value, 1.0)) for code, value in confidences.most_common() if value >= _MIN_PROBABILITY]


def _base(language: str) -> str:
    return re.split("[-_]", language)[0].lower()


def _code(label: str) -> str:
    return "zh" if label in _CHINESE else label


def _is_uniform(confidences: Sequence[float]) -> bool:
    """Tell whether the text has nothing that the model knows; a label with two scripts then counts twice."""
    least = min(confidences)
    return set(confidences) <= {least, 2 * least}


@cache
def _model() -> LanguageIdentifier:
    with needs_extra("serve", "detecting a language"):
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@lru_cache(maxsize=8)
def _identifier(among: frozenset[str] | None) -> LanguageIdentifier | None:
    """Return a model for some languages, which is never changed; None if it knows none of them."""
    if among is None:
        return _model()
    labels = {label for label in _model().labels if _code(label) in among}
    if not labels:
        return None
    chosen = copy.copy(_model())
    chosen.set_languages(labels)
    return chosen
