"""Files of glossaries: TSV, CSV and TBX are read, TSV is written. Knows nothing of models.

Files are not trusted: their size, the number of rows and terms, and the length of a term are bounded.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from warnings import warn

from lacuna.artifacts.files import write_bytes, writing
from lacuna.errors import FormatError, GlossaryError, LacunaWarning
from lacuna.glossaries.glossary import Glossary, Term
from lacuna.glossaries.glossary_check import check_terms
from lacuna.glossaries.problems import Problem, of_severity, summarize
from lacuna.glossaries.rows import COLUMNS, Row, group_rows, normalize, read_row, to_rows, to_term
from lacuna.glossaries.tbx import read_tbx
from lacuna.records import Languages

MAX_BYTES = 2**26
MAX_TERMS = 100_000
# A term has a row for each of its translations.
MAX_ROWS = 2 * MAX_TERMS
#: Reading stops after this many rows that cannot be read.
MAX_WRONG_ROWS = 1_000

_SUFFIXES = (".tsv", ".csv", ".tbx")
_SPREADSHEETS = frozenset({".xlsx", ".xls", ".xlsm", ".ods"})
_SIGNATURES = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
# What a row may have besides its source.
_OTHERS = ("target", "forbidden", "translate")
_EMPTY = "has no terms; write a term and its translation in each line"
_MAX_NAMED = 5
_SHOWN = 40  # characters
_SNIFFED = 20  # rows

_Cells = Sequence[str]


@dataclass(frozen=True, slots=True)
class GlossaryFile:
    """A file that was read.

    :param glossary: The terms without errors.
    :param problems: Everything that is wrong, in the order of the lines.
    :param rows: Number of rows, without the header.
    :param unknown_columns: Columns that the toolkit does not have; nothing of them is in the glossary.
    """

    glossary: Glossary
    problems: tuple[Problem, ...]
    rows: int
    unknown_columns: tuple[str, ...] = ()

    @property
    def errors(self) -> list[Problem]:
        """The problems because of which the glossary cannot be used."""
        return of_severity(self.problems, "error")

    @property
    def warnings(self) -> list[Problem]:
        """The other problems."""
        return of_severity(self.problems, "warning")


class _UnreadableError(Exception):
    """The rest of a file cannot be read."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class _Header:
    """The columns of a table.

    :param names: The name of each column; those that the toolkit does not have are empty.
    :param written: Whether the table has a line with them.
    """

    names: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    written: bool = True

    def named(self, cells: _Cells) -> dict[str, str] | None:
        """Return the cells of a row by the names of their columns; ``None`` if there are more cells than columns."""
        if any(cell.strip() for cell in cells[len(self.names) :]):
            return None
        return {name: cell for name, cell in zip(self.names, cells, strict=False) if name}


def load_glossary(path: str | Path, *, languages: Languages | None = None) -> Glossary:
    """Read a glossary that is free of errors.

    :param languages: The direction; a TBX file with more than two languages needs it.
    :raises GlossaryError: The file cannot be read, or has an error.
    """
    read = read_glossary(path, languages=languages)
    if read.errors:
        raise GlossaryError(summarize(str(path), read.errors))
    if read.warnings:
        warn(summarize(str(path), read.warnings), LacunaWarning, stacklevel=2)
    return read.glossary


def read_glossary(
    path: str | Path, *, languages: Languages | None = None, can_write: Callable[[str], bool] | None = None
) -> GlossaryFile:
    """Read a glossary and everything that is wrong with it.

    :param languages: As in :func:`load_glossary`.
    :param can_write: Tells whether the vocabulary of a model can write a text; without it, that is not checked.
    :raises GlossaryError: There is no such file, or it has another format.
    """
    path = Path(path)
    suffix = _check_suffix(path)
    return _parse(_read_bytes(path), path, suffix, languages, can_write)


def write_glossary(path: str | Path, glossary: Glossary) -> None:
    """Write a glossary as TSV, atomically; equal glossaries give equal bytes.

    :raises GlossaryError: The suffix is another one, a term has an error, or it would be another term when it is read
        again, for example because it contains a tab.
    """
    path = Path(path)
    content = to_bytes(path, glossary)
    with writing(path, GlossaryError):
        write_bytes(path, content)


def to_bytes(path: Path, glossary: Glossary) -> bytes:
    """Return the content of a file with these terms; parameters and errors are those of :func:`write_glossary`."""
    if path.suffix.lower() != ".tsv":
        raise GlossaryError(f"{path}: a glossary is written as .tsv; change the suffix")
    rows: list[Row] = []
    for term in glossary:
        rows += to_rows(term, len(rows) + 2)
    table = [row.cells for row in rows]
    for cells in table:
        for text in cells:
            if text != normalize(text):
                raise _cannot_write(path, cells[0], f"got {text!r}, which would be read as {normalize(text)!r}")
    used = [n for n, name in enumerate(COLUMNS) if name in ("source", "target") or any(cells[n] for cells in table)]
    lines = ["\t".join(cells[n] for n in used) for cells in (COLUMNS, *table)]
    try:
        content = "".join(f"{line}\n" for line in lines).encode()
    except UnicodeEncodeError as error:
        raise GlossaryError(f"{path}: got half a surrogate pair, which UTF-8 cannot encode; drop that term") from error
    _check_written(path, glossary, content)
    return content


def _check_written(path: Path, glossary: Glossary, content: bytes) -> None:
    read = _parse(content, path, ".tsv", None, None)
    if read.errors:
        raise _cannot_write(path, read.errors[0].source, read.errors[0].message)
    again = {term.source: term for term in read.glossary}
    missing = next((term.source for term in glossary if term.source not in again), None)
    if missing is not None:
        raise _cannot_write(path, missing, "another term has the same source; join them")
    for term in glossary:
        for name in Term.__slots__:
            value, other = getattr(term, name), getattr(again[term.source], name)
            if value != other:
                raise _cannot_write(path, term.source, f"{name}: got {value!r}, which would be read as {other!r}")


def _cannot_write(path: Path, source: str, reason: str) -> GlossaryError:
    return GlossaryError(f"{path}: {source!r}: {reason}; nothing was written")


# --- bytes and text --------------------------------------------------------------------------------------------------


def _check_suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix in _SPREADSHEETS:
        raise GlossaryError(f"{path}: spreadsheets are not read; save it as CSV (UTF-8) in the program that made it")
    if suffix not in _SUFFIXES:
        raise GlossaryError(f"{path}: unsupported suffix {suffix or 'none'}; a glossary is {', '.join(_SUFFIXES)}")
    return suffix


def _read_bytes(path: Path) -> bytes:
    """Read a file, at most one byte more than is allowed."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise GlossaryError(f"{path}: cannot be read ({error.strerror}); check the name and the permissions") from error


def _decode(raw: bytes) -> str:
    encoding = next((name for start, name in _SIGNATURES.items() if raw.startswith(start)), "utf-8")
    if encoding != "utf-16" and b"\0" in raw:
        raise _UnreadableError("binary, or UTF-16 without byte order mark; save it as UTF-8 text")
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        before, byte = bytes(error.object[: error.start]), error.object[error.start]
        line = before.decode(encoding, "replace").count("\n") + 1
        raise _UnreadableError(
            f"not {encoding.removesuffix('-sig').upper()} (byte 0x{byte:02x}); save it as UTF-8, or convert it with: "
            "iconv -t UTF-8",
            line,
        ) from error


# --- rows ------------------------------------------------------------------------------------------------------------


def _parse(
    raw: bytes, path: Path, suffix: str, languages: Languages | None, can_write: Callable[[str], bool] | None
) -> GlossaryFile:
    problems: list[Problem] = []
    rows: list[Row] = []
    header = _Header(())
    count = 0
    try:
        if len(raw) > MAX_BYTES:
            raise _UnreadableError(f"larger than {MAX_BYTES:,} bytes, the largest glossary allowed; split it")
        source: Iterator[tuple[int, Mapping[str, str] | None]]
        if suffix == ".tbx":
            source = _tbx_rows(raw, path, languages, problems)
        else:
            header, records = _open_table(_decode(raw), suffix)
            problems += [_unknown_columns(header.unknown)] if header.unknown else []
            source = _table_rows(header, records, problems)
        sources: set[str] = set()
        for count, (line, cells) in enumerate(source, start=1):
            row = None if cells is None else read_row(line, cells, problems)
            if row is not None:
                rows.append(row)
                sources.add(row.source)
            _check_bounds(line, count, len(sources), count - len(rows))
    except _UnreadableError as error:
        problems.append(Problem(error.line, "error", "", str(error)))
    if not rows and not of_severity(problems, "error"):
        problems.append(Problem(0, "warning", "", _EMPTY))
    groups = group_rows(rows)
    problems += check_terms(groups, can_write)
    wrong = {problem.line for problem in problems if problem.severity == "error"}
    terms = [to_term(group) for group in groups if not any(row.line in wrong for row in group)]
    ordered = tuple(sorted(problems, key=lambda problem: problem.line))
    return GlossaryFile(Glossary(terms, path.name, path), ordered, count, header.unknown)


def _check_bounds(line: int, rows: int, sources: int, wrong: int) -> None:
    if sources > MAX_TERMS or rows > MAX_ROWS:
        most = f"{MAX_TERMS:,} terms" if sources > MAX_TERMS else f"{MAX_ROWS:,} rows"
        raise _UnreadableError(f"more than {most}, the most allowed; leave out what the model translates anyway", line)
    if wrong >= MAX_WRONG_ROWS:
        raise _UnreadableError(f"{MAX_WRONG_ROWS:,} rows up to here cannot be read; the rest was not read", line)


def _tbx_rows(
    raw: bytes, path: Path, languages: Languages | None, problems: list[Problem]
) -> Iterator[tuple[int, Mapping[str, str] | None]]:
    try:
        yield from read_tbx(raw, str(path), languages, problems)
    except FormatError as error:
        message = str(error).removeprefix(f"{path}:").strip()
        line, _, rest = message.partition(": ")
        if line.isdecimal():
            raise _UnreadableError(rest, int(line)) from error
        raise _UnreadableError(message) from error


def _open_table(text: str, suffix: str) -> tuple[_Header, Iterator[tuple[int, _Cells]]]:
    """Return the header of a table, and all rows after it with their lines."""
    separators = "\t" if suffix == ".tsv" else ",;"
    beginnings = {separator: list(islice(_records(text, separator), _SNIFFED)) for separator in separators}
    if not beginnings[separators[0]]:
        raise _UnreadableError(_EMPTY)
    headers = {separator: _read_header(rows[0][1]) for separator, rows in beginnings.items()}
    # The separator that gives a header, or else the one that gives two columns most often.
    separator = max(
        separators,
        key=lambda each: (headers[each] is not None, sum(len(cells) == 2 for _, cells in beginnings[each])),
    )
    header = headers[separator]
    if header is not None:
        return header, islice(_records(text, separator), 1, None)
    width = len(beginnings[separator][0][1])
    if width != 2:
        raise _UnreadableError(
            f"got {width} column{'s' if width != 1 else ''} and no header; write two, source and target, or name the "
            f"columns in the first line: {', '.join(COLUMNS)}",
            1,
        )
    return _Header(("source", "target"), written=False), _records(text, separator)


def _read_header(cells: _Cells) -> _Header | None:
    """Return the columns that the first row names; ``None`` if it is no header."""
    names = [normalize(cell).lower() for cell in cells]
    while names and not names[-1]:
        names.pop()
    if "source" not in names or not set(names) & set(COLUMNS[1:]):
        return None
    twice = [name for name, count in Counter(names).items() if count > 1 and name in COLUMNS]
    if twice:
        raise _UnreadableError(f"the header has the column {twice[0]} twice; remove one of them", 1)
    if not set(_OTHERS) & set(names):
        raise _UnreadableError(f"the header has none of the columns {', '.join(_OTHERS)}; add the column target", 1)
    unknown = tuple(name or f"number {n}" for n, name in enumerate(names, start=1) if name not in COLUMNS)
    return _Header(tuple(name if name in COLUMNS else "" for name in names), unknown)


def _unknown_columns(names: Sequence[str]) -> Problem:
    named = ", ".join(name[:_SHOWN] for name in names[:_MAX_NAMED]) + (", ..." if len(names) > _MAX_NAMED else "")
    what = f"unknown column{'s' if len(names) > 1 else ''} {named}"
    return Problem(1, "warning", "", f"{what}, of which nothing is read; the columns are {', '.join(COLUMNS)}")


def _records(text: str, separator: str) -> Iterator[tuple[int, _Cells]]:
    """Yield the line and the cells of each row that is not empty; only CSV has quotes."""
    if separator == "\t":
        for number, written in enumerate(io.StringIO(text, newline=None), start=1):
            if written.strip():
                yield number, written.rstrip("\n").split("\t")
        return
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    line = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise _UnreadableError(f"malformed CSV ({error}); check the quotes", line) from error


def _table_rows(
    header: _Header, records: Iterable[tuple[int, _Cells]], problems: list[Problem]
) -> Iterator[tuple[int, Mapping[str, str] | None]]:
    for line, cells in records:
        named = header.named(cells)
        if named is None:
            first = "the header" if header.written else "a glossary without header"
            message = (
                f"got {len(cells)} columns, but {first} has {len(header.names)}; name all columns in the first line"
            )
            problems.append(Problem(line, "error", normalize(cells[0])[:_SHOWN], message))
        yield line, named
