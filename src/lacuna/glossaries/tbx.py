"""TBX files as rows of a glossary: terms of two languages, and which of them are deprecated.

Both generations are read: ``martif`` with ``termEntry``, ``langSet`` and ``tig`` or ``ntig`` (ISO 30042:2008), and
``tbx`` with ``conceptEntry``, ``langSec`` and ``termSec`` (2019), with data categories as attributes or as elements.
Each term of a concept in the source language is translated by each of its terms in the target language. Knows nothing
of models.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import BytesIO

from lacuna.errors import FormatError
from lacuna.formats.languages import language_matches, normalize_language
from lacuna.formats.xml_units import Node, read_units
from lacuna.glossaries.problems import Problem
from lacuna.records import Languages

_CONCEPTS = frozenset({"termEntry", "conceptEntry"})
_LANGUAGES = frozenset({"langSet", "langSec"})
_TERMS = frozenset({"tig", "ntig", "termSec"})
_OLD_ROOT = re.compile(rb"<(\w+:)?martif[\s>]")
_HEAD_BYTES = 100_000
_PREFERRED = frozenset({"preferred", "preferredterm-admn-sts"})
_FORBIDDEN = re.compile(r"(deprecated|superseded|forbidden)(term)?(-admn-sts)?|notrecommended|obsolete")
_STATUSES = _PREFERRED | {
    *("admitted", "admittedterm-admn-sts", "standardizedterm-admn-sts", "regulatedterm-admn-sts"),
    *("legalterm-admn-sts", ""),
}
_MAX_NAMED = 20


@dataclass(frozen=True, slots=True)
class _TbxTerm:
    text: str
    status: str
    line: int


@dataclass(slots=True)
class _Concept:
    line: int
    terms: dict[str, list[_TbxTerm]] = field(default_factory=dict)

    def side(self, language: str) -> list[_TbxTerm]:
        """Return the terms of a language and its regional forms, preferred ones first."""
        found = [term for code, terms in self.terms.items() if language_matches(language, code) for term in terms]
        return sorted(found, key=lambda term: term.status not in _PREFERRED)


def read_tbx(
    raw: bytes, name: str, languages: Languages | None, problems: list[Problem]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line and the cells of each row.

    :param name: The name of the file, for errors.
    :param languages: The direction. Without it, the file must have two languages, and the first one is the source.
    :param problems: Gets what is wrong with concepts.
    :raises FormatError: The file is not TBX, or its languages are others.
    """
    root = "martif" if _OLD_ROOT.search(raw[:_HEAD_BYTES].replace(b"\0", b"")) else "tbx"
    concepts = [_read_concept(node) for node in read_units(BytesIO(raw), name, root, _CONCEPTS)]
    direction = _direction(concepts, name, languages)
    one_sided = 0
    for concept in concepts:
        sources, targets = concept.side(direction.source), concept.side(direction.target)
        if not (sources and targets):
            one_sided += 1
        problems += _unknown_statuses([*sources, *targets])
        for source in sources:
            for target in targets:
                column = "forbidden" if _FORBIDDEN.fullmatch(target.status) else "target"
                yield target.line, {"source": source.text, column: target.text}
    if one_sided:
        count = f"{one_sided:,} of {len(concepts):,} concepts"
        problems.append(Problem(0, "warning", "", f"{count} lack a term in {direction.source} or {direction.target}"))


def _read_concept(node: Node) -> _Concept:
    concept = _Concept(node.line)
    for section in _inside(node, _LANGUAGES):
        code = normalize_language(section.attributes.get("xml:lang") or section.attributes.get("lang", ""))
        concept.terms.setdefault(code, []).extend(term for tig in _inside(section, _TERMS) for term in _read_term(tig))
    return concept


def _read_term(tig: Node) -> Iterator[_TbxTerm]:
    status = ""
    for note in _inside(tig, frozenset({"termNote", "administrativeStatus"})):
        if note.name == "administrativeStatus" or note.attributes.get("type") == "administrativeStatus":
            status = _text(note).strip().lower()
    for term in _inside(tig, frozenset({"term"})):
        yield _TbxTerm(_text(term), status, term.line)


def _inside(node: Node, names: frozenset[str]) -> Iterator[Node]:
    """Yield the elements of some names inside another at any depth, but not inside each other."""
    for item in node.items:
        if isinstance(item, Node):
            if item.name in names:
                yield item
            else:
                yield from _inside(item, names)


def _text(node: Node) -> str:
    return "".join(_text(item) if isinstance(item, Node) else item for item in node.items)


def _direction(concepts: Iterable[_Concept], name: str, languages: Languages | None) -> Languages:
    counts = Counter(code for concept in concepts for code in concept.terms)
    found = ", ".join(list(counts)[:_MAX_NAMED]) or "none"
    if languages is None:
        if len(counts) != 2:
            raise FormatError(
                f"{name}: has {len(counts)} languages ({found}), not two; give the direction, as in de-en"
            )
        return Languages(*counts)
    for wanted in (languages.source, languages.target):
        if not any(language_matches(wanted, code) for code in counts):
            raise FormatError(f"{name}: has no terms in {wanted}; its languages are {found}")
    return languages


def _unknown_statuses(terms: Iterable[_TbxTerm]) -> Iterator[Problem]:
    for term in terms:
        if term.status not in _STATUSES and not _FORBIDDEN.fullmatch(term.status):
            yield Problem(
                term.line,
                "warning",
                term.text,
                f"administrativeStatus: got {term.status!r}, which TBX does not have; the term is taken as allowed",
            )
