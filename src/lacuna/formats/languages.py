"""Language codes as files spell them, and whether they are the languages asked for."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from lacuna.records import Languages


@lru_cache(maxsize=1024)  # a translation memory names the same few in every unit
def normalize_language(code: str) -> str:
    """Return one spelling of a language code: ``pt_BR``, ``pt-BR`` and ``PT-br`` become ``pt-br``."""
    return code.strip().replace("_", "-").lower()


def base_language(code: str) -> str:
    """Return the language without region and variant: ``pt`` for ``pt_BR``, ``sr`` for ``sr@latin``."""
    return re.split("[-@]", normalize_language(code))[0]


def language_matches(wanted: str, given: str) -> bool:
    """Tell whether the language of a file is the one wanted or a regional form of it (``de`` takes ``de-AT``)."""
    wanted, given = normalize_language(wanted), normalize_language(given)
    return given == wanted or given.startswith(wanted + "-")


def is_reversed(source: str, target: str, languages: Languages) -> bool | None:
    """Tell whether a file translates in the opposite of the direction asked for; None if its languages are others.

    Regions count only to tell the two languages from each other, as in ``pt-BR`` and ``pt-PT``: a file in ``en`` is
    also taken for ``en-US``.

    :param source: The source language that the file names; empty if it names none, which then can be any.
    :param target: The same for the target language.
    """
    same: Callable[[str, str], bool]
    for same in (language_matches, lambda wanted, given: base_language(wanted) == base_language(given)):
        for left, right, swapped in ((source, target, False), (target, source, True)):
            if (not left or same(languages.source, left)) and (not right or same(languages.target, right)):
                return swapped
    return None
