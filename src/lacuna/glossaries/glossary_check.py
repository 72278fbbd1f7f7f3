"""What is wrong with the terms of a glossary: contradictions, and terms that cannot do what they say.

Knows nothing of files and models.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from lacuna.corpora.placeholders import find_placeholders
from lacuna.glossaries.problems import Problem, Severity
from lacuna.glossaries.rows import Row

#: Translations of a term are compared with each other.
MAX_ROWS_OF_TERM = 100
# Scripts without spaces between words: there, every place is the edge of a word.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


def check_terms(groups: Sequence[Sequence[Row]], can_write: Callable[[str], bool] | None = None) -> list[Problem]:
    """Return what is wrong with the terms.

    :param groups: The rows of each term.
    :param can_write: Tells whether the vocabulary of a model can write a text, as
        :meth:`~lacuna.models.Model.can_write`.
    """
    problems = [problem for group in groups for problem in _check_term(group)]
    problems += _check_chains(groups)
    if can_write is not None:
        problems += _check_vocabulary(groups, can_write)
    return problems


def _check_term(group: Sequence[Row]) -> Iterator[Problem]:
    """Check the rows of one term."""
    if len(group) > MAX_ROWS_OF_TERM:
        yield _error(
            group[MAX_ROWS_OF_TERM],
            f"source: got more than {MAX_ROWS_OF_TERM} rows with the same one, the most allowed; keep the best",
        )
        group = group[:MAX_ROWS_OF_TERM]
    yield from _check_conflicts(group)
    yield from _check_targets(group)
    yield from _check_repeated(group)
    first = group[0]
    if len(first.source) == 1:
        yield _warning(first, "source: got a single letter, which is a term wherever it is a word; write a longer term")
    targets = {row.target for row in group if row.target}
    if targets == {first.source} and first.translate and not any(row.forbidden for row in group):
        yield _warning(first, 'target: got the source itself; write translate "no" for a term that stays as it is')
    for row in group:
        yield from _check_placeholders(row)


def _check_conflicts(group: Sequence[Row]) -> Iterator[Problem]:
    first = group[0]
    for row in group[1:]:
        for column, one, other in (
            ("case", first.case_sensitive, row.case_sensitive),
            ("match", first.inflected, row.inflected),
            ("translate", first.translate, row.translate),
        ):
            if one != other:
                yield _error(
                    row, f"{column}: differs from line {first.line}, which has the same source; write the same in both"
                )
    tagged = next((row for row in group if row.tag), None)
    for row in group:
        if tagged is not None and row.tag not in ("", tagged.tag):
            yield _error(
                row,
                f"tag: got {row.tag!r}, but line {tagged.line} has the same source with {tagged.tag!r}; "
                "write one glossary for each",
            )


def _check_targets(group: Sequence[Row]) -> Iterator[Problem]:
    """Check what is allowed against what is forbidden."""
    first = group[0]
    for row in group:
        if not row.translate and row.target not in ("", row.source):
            yield _error(
                row, f'target: got {row.target!r} for a term with translate "no"; leave one of them out, or the row'
            )
    allowed = [row for row in group if row.target] if first.translate else [first]
    for row in group:
        if row.forbidden:
            yield from _check_forbidden(row, allowed)


def _check_forbidden(row: Row, allowed: Iterable[Row]) -> Iterator[Problem]:
    flags = re.NOFLAG if row.case_sensitive else re.IGNORECASE
    pattern = _as_words(row.forbidden, flags)
    for other in allowed:
        target = other.target or other.source
        if pattern.fullmatch(target):
            yield _error(
                row, f"forbidden: got {row.forbidden!r}, which line {other.line} allows for the same source; decide"
            )
            return
        if pattern.search(target):
            yield _error(
                row,
                f"forbidden: got {row.forbidden!r}, a part of {target!r}, which line {other.line} allows for the same "
                "source, so that it would be forbidden too; leave one of them out",
            )
            return


def _as_words(text: str, flags: re.RegexFlag) -> re.Pattern[str]:
    """Return a pattern that finds a text as whole words."""
    before = "" if _UNSPACED.match(text[0]) or not _is_word(text[0]) else r"(?<!\w)"
    after = "" if _UNSPACED.match(text[-1]) or not _is_word(text[-1]) else r"(?!\w)"
    return re.compile(before + re.escape(text) + after, flags)


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _check_repeated(group: Sequence[Row]) -> Iterator[Problem]:
    lines: dict[tuple[str, ...], int] = {}
    for row in group:
        line = lines.setdefault((row.source, *row.cells[1:]), row.line)
        if line != row.line:
            yield _warning(row, f"the same as line {line}; remove one of them")


def _check_placeholders(row: Row) -> Iterator[Problem]:
    found = find_placeholders(row.source)
    if found == [row.source]:
        yield _warning(row, "source: is a placeholder, which every translation repeats as it is; remove the term")
    elif found:
        yield _warning(row, f"source: contains the placeholder {found[0]}, so it is never found; write it without")
    for column, text in (("target", row.target), ("forbidden", row.forbidden)):
        added = [placeholder for placeholder in find_placeholders(text) if placeholder not in found]
        if added:
            yield _warning(
                row, f"{column}: contains the placeholder {added[0]}, which the source does not have; write it without"
            )


def _check_chains(groups: Sequence[Sequence[Row]]) -> Iterator[Problem]:
    """Find targets that are sources with other targets."""
    lines = {group[0].source.casefold(): group[0].line for group in reversed(groups)}
    targets: dict[str, set[str]] = {}
    for group in groups:
        own = targets.setdefault(group[0].source.casefold(), set())
        own.update(row.target.casefold() for row in group if row.target)
    seen: set[tuple[str, str]] = set()
    for group in groups:
        for row in group:
            source, target = row.source.casefold(), row.target.casefold()
            if target == source or target not in targets or (source, target) in seen:
                continue
            seen.add((source, target))
            line = lines[target]
            if source in targets[target]:
                seen.add((target, source))
                yield _warning(
                    row, f"target: line {line} translates {row.target!r} back; check which column is the source"
                )
            elif targets[target] and target not in targets[target]:  # a word of both languages is no chain
                yield _warning(
                    row,
                    f"target: {row.target!r} is the source of line {line}, with another target; check the columns of "
                    "both lines",
                )


def _check_vocabulary(groups: Iterable[Iterable[Row]], can_write: Callable[[str], bool]) -> Iterator[Problem]:
    for group in groups:
        for row in group:
            target = row.target if row.translate else row.source
            if target and not can_write(target):
                yield _warning(
                    row,
                    f"{'target' if row.translate else 'source'}: the model cannot write {target!r} so, its vocabulary "
                    "lacks a character; write it with others",
                )


def _error(row: Row, message: str) -> Problem:
    return _problem(row, "error", message)


def _warning(row: Row, message: str) -> Problem:
    return _problem(row, "warning", message)


def _problem(row: Row, severity: Severity, message: str) -> Problem:
    return Problem(row.line, severity, row.source, message)
