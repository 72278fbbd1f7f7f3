"""Checks of terms that clients send: the same as of a glossary file. Knows nothing of HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from lacuna.glossaries import Term
from lacuna.glossaries.glossary_check import check_terms
from lacuna.glossaries.problems import Problem, of_severity
from lacuna.glossaries.rows import COLUMNS, Row, group_rows, read_row, to_rows, to_term
from lacuna.serving.limits import RequestError


class CheckedTerms(NamedTuple):
    """Terms without errors; those with the same source are one.

    :param warnings: What they do not do although they seem to, one line each.
    """

    terms: tuple[Term, ...] = ()
    warnings: tuple[str, ...] = ()


def check(terms: Sequence[Term]) -> CheckedTerms:
    """Refuse terms that a glossary file must not have, and normalize the others."""
    problems: list[Problem] = []
    rows: list[Row] = []
    for number, term in enumerate(terms):
        for row in to_rows(term, number):
            cells = dict(zip(COLUMNS, row.cells, strict=True))
            normalized = read_row(number, cells, problems)
            rows += [] if normalized is None else [replace(normalized, line=number)]
    groups = group_rows(rows)
    problems += check_terms(groups)
    errors = of_severity(problems, "error")
    if errors:
        others = f" ({len(errors):,} errors)" if len(errors) > 1 else ""
        raise RequestError(f"{_line(errors[0])}{others}")
    warnings = dict.fromkeys(_line(problem) for problem in of_severity(problems, "warning"))
    return CheckedTerms(tuple(to_term(group) for group in groups), tuple(warnings))


def _line(problem: Problem) -> str:
    return f"terms.{problem.line}: {problem.message}"
