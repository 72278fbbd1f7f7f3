"""Reading what ``lacuna reproduce`` left in a folder: ``experiment.json`` and its tables. Read strictly."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from lacuna.analysis.tables import Table, read_table
from lacuna.errors import ReportError
from lacuna.manifests import Record, read_manifest

FORMAT = 1
RECORD = "experiment.json"
TABLES = "tables"

# Names of tables are names of files, and ids in the page.
_TableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
_Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class FindingRecord(Record):
    """A claim and what became of it.

    :param figures: The numbers that decide.
    """

    claim: str
    verdict: Literal["holds", "within noise", "does not hold", "not measured"]
    figures: str


class StepRecord(Record):
    """A step of the work; ``key`` changes with anything that it depends on."""

    name: str
    seconds: _Seconds
    key: str


class ExperimentRecord(Record):
    """The content of ``experiment.json``.

    :param name: What the experiment is called, in a word or two.
    :param title: A sentence about it; may be empty.
    :param tables: Names, in order of appearance.
    """

    format: int = FORMAT
    kind: Literal["experiment"] = "experiment"
    name: str
    title: str
    tables: tuple[_TableName, ...]
    findings: tuple[FindingRecord, ...]
    settings: dict[str, Any]
    versions: dict[str, str]
    hashes: dict[str, str]
    steps: tuple[StepRecord, ...]
    seconds: _Seconds
    languages: str


@dataclass(frozen=True, slots=True)
class Experiment:
    """A record and the tables that it names."""

    record: ExperimentRecord
    tables: tuple[Table, ...]


def read_experiment(folder: Path) -> Experiment:
    """Read a whole experiment.

    :raises ReportError: There is none, it has another format, or a table is missing or goes by another name.
    """
    missing = f"{folder}: no experiment, {RECORD} is not there; name a folder that lacuna reproduce made"
    record = read_manifest(
        folder / RECORD, ExperimentRecord, ReportError, missing=missing, again="run the experiment again"
    )
    if len(set(record.tables)) < len(record.tables):
        raise ReportError(f"{folder / RECORD}: tables: a name comes twice; run the experiment again")
    return Experiment(record, tuple(_read_table(folder / TABLES / f"{name}.json") for name in record.tables))


def _read_table(path: Path) -> Table:
    if not path.is_file():
        raise ReportError(f"{path}: not there, but {RECORD} names this table; run the experiment again")
    table = read_table(path)
    if table.name != path.stem:
        raise ReportError(f"{path}: holds a table named {table.name!r}; run the experiment again")
    return table
