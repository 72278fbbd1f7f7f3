"""Rows of a glossary file: their columns, and how rows with the same source become a term.

Knows nothing of files and models.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from lacuna.glossaries.glossary import Term
from lacuna.glossaries.problems import Problem

#: In the order in which they are written.
COLUMNS = ("source", "target", "forbidden", "case", "match", "translate", "tag", "note")
#: Of a source, a translation or a forbidden translation.
MAX_CHARACTERS = 200

_TERMS = ("source", "target", "forbidden")
# What the columns of settings may contain, and what it means.
_VALUES: dict[str, dict[str, bool]] = {
    "case": {"insensitive": False, "sensitive": True, "case-insensitive": False, "case-sensitive": True, "": False},
    "match": {"inflected": True, "exact": False, "": True},
    "translate": {"yes": True, "no": False, "true": True, "false": False, "": True},
}
_SHOWN = 40
# Control characters, a byte order mark, and the private-use characters that stand for the codes of documents. White
# space is normalized before.
_REFUSED = re.compile(r"[\x00-\x1f\x7f-\x9f\ufeff\ue000-\uf8ff\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a glossary file; the fields are those of :class:`~lacuna.glossaries.Term`.

    :param line: Its line in the file.
    :param target: Empty if it has none.
    :param forbidden: Empty if it has none.
    """

    line: int
    source: str
    target: str = ""
    forbidden: str = ""
    case_sensitive: bool = False
    inflected: bool = True
    translate: bool = True
    tag: str = ""
    note: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of the row in the order of :data:`COLUMNS`; a setting that has its default is empty."""
        settings = (self.case_sensitive, self.inflected, self.translate)
        written = [
            name if on else "" for name, on in zip(("sensitive", "exact", "no"), _unusual(settings), strict=True)
        ]
        return self.source, self.target, self.forbidden, *written, self.tag, self.note


def normalize(text: str) -> str:
    """Return a text in composed characters (NFC) with single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def read_row(line: int, cells: Mapping[str, str], problems: list[Problem]) -> Row | None:
    """Read the cells of a row.

    :param cells: By the name of their column.
    :param problems: Gets what is wrong.
    :returns: ``None`` if the row cannot be used.
    """
    texts = {name: normalize(cell) if (cell := cells.get(name)) else "" for name in COLUMNS}
    source = texts["source"][:MAX_CHARACTERS]
    wrong = [*_wrong_characters(texts), *_wrong_values(texts)]
    settings = {name: values.get(texts[name].lower(), True) for name, values in _VALUES.items()}
    if not texts["source"]:
        wrong.append("source: got an empty cell; write the term")
    elif not (texts["target"] or texts["forbidden"]) and settings["translate"]:
        wrong.append('target: got an empty cell; write a translation, a forbidden one, or translate "no"')
    problems += [Problem(line, "error", source, message) for message in wrong]
    if wrong:
        return None
    return Row(
        line,
        source=texts["source"],
        target=texts["target"],
        forbidden=texts["forbidden"],
        case_sensitive=settings["case"],
        inflected=settings["match"],
        translate=settings["translate"],
        tag=texts["tag"],
        note=texts["note"],
    )


def group_rows(rows: Iterable[Row]) -> list[list[Row]]:
    """Return the rows of each term, in the order of their first rows.

    Rows have the same term if their sources differ in capitals at most; those that are all case-sensitive, if their
    sources are equal.
    """
    rows = list(rows)
    folded = [row.source.casefold() for row in rows]
    in_any_capitals = {source for source, row in zip(folded, rows, strict=True) if not row.case_sensitive}
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for source, row in zip(folded, rows, strict=True):
        groups[source, "" if source in in_any_capitals else row.source].append(row)
    return list(groups.values())


def to_term(group: Sequence[Row]) -> Term:
    """Return the term of its rows, which do not contradict each other."""
    first = group[0]
    return Term(
        source=first.source,
        targets=_distinct(row.target for row in group) if first.translate else (),
        forbidden=_distinct(row.forbidden for row in group),
        case_sensitive=first.case_sensitive,
        inflected=first.inflected,
        translate=first.translate,
        note="; ".join(_distinct(row.note for row in group)),
        tag=next((row.tag for row in group if row.tag), ""),
    )


def to_rows(term: Term, line: int) -> list[Row]:
    """Return the rows of a term, the first of which is on the given line."""
    pairs = list(zip_longest(term.targets, term.forbidden, fillvalue="")) or [("", "")]
    return [
        Row(
            line + number,
            term.source,
            target,
            forbidden,
            term.case_sensitive,
            term.inflected,
            term.translate,
            term.tag,
            "" if number else term.note,
        )
        for number, (target, forbidden) in enumerate(pairs)
    ]


def _unusual(settings: Sequence[bool]) -> list[bool]:
    return [value != _VALUES[name][""] for name, value in zip(_VALUES, settings, strict=True)]


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in texts if text))


def _wrong_characters(texts: Mapping[str, str]) -> list[str]:
    wrong = []
    for name, text in texts.items():
        if name in _TERMS and len(text) > MAX_CHARACTERS:
            wrong.append(
                f"{name}: got {len(text):,} characters, the longest allowed are {MAX_CHARACTERS}; "
                "a glossary has terms, put sentences into a memory"
            )
        elif refused := _REFUSED.search(text):
            wrong.append(f"{name}: got the character U+{ord(refused[0]):04X}, which is no text; remove it")
    return wrong


def _wrong_values(texts: Mapping[str, str]) -> list[str]:
    return [
        f"{name}: got {texts[name][:_SHOWN]!r}; allowed are {' and '.join(list(values)[:2])}"
        for name, values in _VALUES.items()
        if texts[name].lower() not in values
    ]
