"""One spelling per language: ``de_DE``, ``de-DE`` and ``de`` are all ``de``; ``zh_CN`` and ``zh-Hans`` are ``zh``.

Knows nothing of packages or of what is translated into these languages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from importlib import resources
from typing import Any

from lacuna.errors import FetchError
from lacuna.records import Languages

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


class CatalogKind(StrEnum):
    """How a package stores its translations."""

    GETTEXT = "gettext"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Package:
    """One wheel that carries translations.

    :param license: As the package's own metadata states it.
    :param catalogs: Globs of the catalogs inside the wheel; ``{locale}`` stands where the language is named.
    :param languages: Those with a translation worth the download, in our one spelling, without English.
    :param python: The Python version to name to pip, so that any Python can fetch this very file.
    :param tags: The wheel's implementation, ABI and platform tags, to name to pip likewise.
    :param accelerator: The mark this package puts before a shortcut letter (``&`` or ``_``); empty for none.
    :param keyed: The message ids may be mere keys; the English then stands in the comment ``Default: "..."``.
    :param misplaced: Some translations are known to stand at a wrong entry, so pairs are checked more strictly.
    """

    name: str
    version: str
    filename: str
    sha256: str
    size: int
    license: str
    kind: CatalogKind
    catalogs: tuple[str, ...]
    domains: tuple[str, ...]
    languages: frozenset[str]
    python: str = "3.11"
    tags: tuple[str, str, str] = ("py", "none", "any")
    accelerator: str = ""
    keyed: bool = False
    misplaced: bool = False

    @property
    def pin(self) -> str:
        """Name and version as pip writes them."""
        return f"{self.name}=={self.version}"

    def speaks(self, languages: Languages) -> bool:
        """Tell whether both sides of a direction are in the package; English always is."""
        return {canonical(languages.source), canonical(languages.target)} <= self.languages | {"en"}


@dataclass(frozen=True, slots=True)
class Registry:
    """Every domain with its one-line description, and every package."""

    domains: dict[str, str]
    packages: tuple[Package, ...]

    def packages_of(self, name: str, languages: Languages) -> list[Package]:
        """Find the packages of a domain that have both languages, or say what there is instead."""
        if name not in self.domains:
            near = get_close_matches(name, self.domains, n=1)
            hint = f"did you mean {near[0]}?" if near else "see lacuna fetch --list"
            raise FetchError(f"domain: got {name!r}; known are {', '.join(self.domains)}; {hint}")
        members = [package for package in self.packages if name in package.domains]
        speaking = [package for package in members if package.speaks(languages)]
        if not speaking or canonical(languages.source) == canonical(languages.target):
            raise FetchError(
                f"languages: no package of domain {name} has both sides of {languages}; "
                f"choose two different ones of en, {', '.join(_shared(members))}"
            )
        return speaking

    def languages_of(self, name: str) -> list[str]:
        """List the languages at least one package of a domain has, beside English."""
        return _shared([package for package in self.packages if name in package.domains])


def _shared(packages: Sequence[Package]) -> list[str]:
    return sorted(set[str]().union(*(package.languages for package in packages)))


def load_registry() -> Registry:
    """Read the registry that comes with Lacuna."""
    text = resources.files("lacuna.corpora.fetching").joinpath("registry.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return Registry(content["domains"], tuple(_package(fields) for fields in content["packages"]))


def _package(fields: dict[str, Any]) -> Package:
    read: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
    read |= {"kind": CatalogKind(fields["kind"]), "languages": frozenset(fields["languages"])}
    return Package(**read)
