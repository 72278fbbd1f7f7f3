"""What is wrong with a glossary, line by line. Knows nothing of files and models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["error", "warning"]
# Lines that a summary names.
_MAX_NAMED = 3


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a glossary.

    :param line: Where it is; 0 if it concerns the whole file.
    :param severity: A glossary with an error cannot be used; with a warning, it does not do what it seems to say.
    :param source: The term, if it is known.
    """

    line: int
    severity: Severity
    source: str
    message: str

    def as_json(self) -> dict[str, Any]:
        """Return the problem as JSON."""
        return asdict(self)


def of_severity(problems: Iterable[Problem], severity: Severity) -> list[Problem]:
    """Return the errors, or the warnings."""
    return [problem for problem in problems if problem.severity == severity]


def summarize(name: str, problems: list[Problem]) -> str:
    """Return one line with the first problem, how many there are, and the way to see all.

    :param name: The file.
    :param problems: One or more, of the same severity.
    """
    first, *others = problems
    where = f"{name}:{first.line}" if first.line else name
    count = f"{len(problems):,} {first.severity}{'s' if others else ''}"
    named = ", ".join(str(problem.line) for problem in problems[:_MAX_NAMED] if problem.line)
    more = ", ..." if len(problems) > _MAX_NAMED else ""
    places = f", lines {named}{more}" if named and others else ""
    return f"{where}: {first.message} ({count}{places}: lacuna glossary check {name})"
