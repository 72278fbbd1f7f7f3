"""A glossary: terms, and how each must be translated.

Knows nothing of models.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Term:
    """A term of the source language.

    :param source: One or more words.
    :param targets: Allowed translations, the preferred one first. May be empty if the term forbids a translation, or is
        not to be translated.
    :param forbidden: Translations that must not appear where the term occurs.
    :param case_sensitive: Find the term, and accept its translations, only with the same capitals.
    :param inflected: Also find inflected forms of the term, and accept inflected forms of its translations.
    :param translate: ``False`` for a term that stays as it is, such as the name of a product.
    :param note: A remark for people.
    :param tag: A label chosen by the user: a client, a product.
    """

    source: str
    targets: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    case_sensitive: bool = False
    inflected: bool = True
    translate: bool = True
    note: str = ""
    tag: str = ""


class Glossary:
    """Terms in a fixed order. Two glossaries with the same terms are equal.

    :param name: What people call it, such as the name of its file.
    :param file: Where it is saved, if it is.
    """

    def __init__(self, terms: Iterable[Term], name: str = "glossary", file: Path | None = None) -> None:
        self.terms, self.name, self.file = tuple(terms), name, file

    def __len__(self) -> int:
        return len(self.terms)

    def __iter__(self) -> Iterator[Term]:
        return iter(self.terms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Glossary) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the terms, without notes and tags: it changes with whatever may change a translation."""
        decisive = [astuple(term)[:6] for term in self.terms]
        return hashlib.sha256(json.dumps(decisive, ensure_ascii=False).encode()).hexdigest()
