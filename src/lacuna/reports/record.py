"""Strict reading of the results of ``lacuna reproduce``: ``experiment.json`` and its tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from lacuna.artifacts.manifests import Record, read_manifest
from lacuna.errors import ReportError
from lacuna.reproduction.tables import Table, read_table

FORMAT = 1
RECORD = "experiment.json"
TABLES = "tables"

# Names of tables are used as file names and as ids in the page.
_TableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
_Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ClaimRecord(Record):
    """A claim and its verdict.

    :param figures: The figures that decide.
    """

    claim: str
    verdict: Literal["holds", "within noise", "does not hold", "not measured"]
    figures: str


class StepRecord(Record):
    """A step; ``key`` changes with everything that decides its result. Earlier versions measured only the seconds."""

    name: str
    key: str
    seconds: _Seconds
    cpu_seconds: _Seconds | None = None
    peak_bytes: int | None = None


class ExperimentRecord(Record):
    """The content of ``experiment.json``.

    :param name: Heading of the report.
    :param title: A sentence about the data; may be empty.
    :param tables: Names of the tables, in order.
    :param findings: The paper's claims and their verdicts.
    :param missing: Results that are not there, and the part of the experiment that computes them.
    """

    format: int = FORMAT
    kind: Literal["experiment"] = "experiment"
    name: str
    title: str
    tables: tuple[_TableName, ...]
    findings: tuple[ClaimRecord, ...]
    missing: dict[str, str] = Field(default_factory=dict)
    settings: dict[str, Any]
    versions: dict[str, str]
    hashes: dict[str, str]
    steps: tuple[StepRecord, ...]
    seconds: _Seconds
    languages: str


@dataclass(frozen=True, slots=True)
class ExperimentResults:
    """The record of an experiment and its tables."""

    record: ExperimentRecord
    tables: tuple[Table, ...]


def read_results(folder: Path) -> ExperimentResults:
    """Read the record and all tables of an experiment.

    :raises ReportError: There is no experiment, its format is unknown, or a table is missing or has the wrong name.
    """
    missing = f"{folder}: no experiment, {RECORD} is missing; name a folder written by lacuna reproduce"
    record = read_manifest(
        folder / RECORD, ExperimentRecord, ReportError, missing=missing, again="run the experiment again"
    )
    if len(set(record.tables)) < len(record.tables):
        raise ReportError(f"{folder / RECORD}: tables: a name occurs twice; run the experiment again")
    return ExperimentResults(record, tuple(_read_table(folder / TABLES / f"{name}.json") for name in record.tables))


def _read_table(path: Path) -> Table:
    if not path.is_file():
        raise ReportError(f"{path}: missing, although {RECORD} lists this table; run the experiment again")
    table = read_table(path)
    if table.name != path.stem:
        raise ReportError(f"{path}: contains a table named {table.name!r}; run the experiment again")
    return table
