"""One spelling per language: ``de_DE``, ``de-DE`` and ``de`` are all ``de``; ``zh_CN`` and ``zh-Hans`` are ``zh``.

Knows nothing of packages or of what is translated into these languages.
"""

from __future__ import annotations

import re

#: A locale as catalogs spell it: ``de``, ``pt_BR``, ``zh-Hans``, ``zh_Hans_CN``, ``sr@latin``, ``de_Informal``.
LOCALE = r"[a-z]{2,3}(?:[_-][A-Za-z0-9]{2,8})*(?:@[a-z]+)?"

# Regions that say nothing new about a language. Those spelled like their language (de_DE, fr_FR) need no entry.
_HOME = {
    **{"am": "ET", "be": "BY", "bn": "BD", "ca": "ES", "cs": "CZ", "da": "DK", "el": "GR", "en": "US", "et": "EE"},
    **{"eu": "ES", "fa": "IR", "gl": "ES", "gu": "IN", "he": "IL", "hi": "IN", "hy": "AM", "ja": "JP", "ka": "GE"},
    **{"kk": "KZ", "km": "KH", "ko": "KR", "ml": "IN", "my": "MM", "nb": "NO", "ne": "NP", "nn": "NO", "pa": "IN"},
    **{"sl": "SI", "sq": "AL", "sv": "SE", "sw": "KE", "ta": "IN", "te": "IN", "uk": "UA", "ur": "PK", "vi": "VN"},
}
_SCRIPTS = {"LATIN": "Latn", "LATN": "Latn"}  # written sr@latin, sr@latn and sr_Latn
_TRADITIONAL = {"HANT", "TW", "HK", "MO"}


def canonical(locale: str) -> str:
    """Give the one spelling we use for a locale.

    Simplified Chinese is ``zh`` and traditional Chinese ``zh_Hant``, whichever region or script names them.

    :param locale: A locale in any of its spellings.
    """
    language, *rest = re.split(r"[-_@]", locale)
    language = language.lower()
    marks = {part.upper() for part in rest}
    if language == "zh":
        return "zh_Hant" if marks & _TRADITIONAL else "zh"
    kept = [_SCRIPTS.get(part.upper(), part) for part in rest if part.upper() != _HOME.get(language, language.upper())]
    return "_".join([language, *kept])


def best_first(locale: str) -> tuple[bool, int, str]:
    """Sort key among spellings of one language that lie side by side in a package.

    A script (``zh_Hans``) is the newer custom and stands before a region (``zh_CN``); otherwise the shorter is first.

    :param locale: A locale as the package spells it.
    """
    return not re.search(r"[-_][A-Z][a-z]{3}\b|[-_][A-Z][a-z]{3}[-_]", locale), len(locale), locale
