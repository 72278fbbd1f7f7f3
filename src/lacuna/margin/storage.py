"""Margins on disk: ``STORE/margin`` and its manifest.

The manifest contains no time and no host name, so equal margins have equal bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lacuna.artifacts.arrays import save_array
from lacuna.artifacts.files import atomic_path, reading, writing
from lacuna.artifacts.manifests import Record, read_manifest, write_sealed
from lacuna.datastore import Store
from lacuna.datastore.columns import record_of
from lacuna.datastore.inspection import measured_rows
from lacuna.datastore.manifest import FileRecord
from lacuna.errors import SettingError, StoreError

FORMAT = 1
FOLDER = "margin"
MANIFEST = "manifest.json"
MARGINS = "margin.npy"
UNKNOWN = "unknown.npy"
ROWS = "rows.npy"
UNFINISHED = "unfinished"

MAX_MARGIN = 2048
_MAX_UINT16 = int(np.iinfo(np.uint16).max)
_Number = TypeVar("_Number", bound=np.generic)


@dataclass(frozen=True)
class Approximate:
    """Settings of approximate margins.

    :param nprobe: Number of lists that each entry is compared with.
    :param lists: Number of lists; by default four times the square root of the number of entries.
    :param seed: Seed of the lists, and of the sample that is compared with exact margins.
    :param sample: Number of entries in this sample.
    """

    nprobe: Annotated[int, Field(alias="probes")] = 32
    lists: int | None = None
    seed: int = 1
    sample: int = 2000

    def __post_init__(self) -> None:
        for name, value, minimum in (
            ("nprobe", self.nprobe, 1),
            ("lists", self.lists, 1),
            ("seed", self.seed, 0),
            ("sample", self.sample, 1),
        ):
            if value is not None and value < minimum:
                raise SettingError(f"{name}: got {value}; allowed: {minimum} or more")


class Agreement(Record):
    """Comparison of approximate with exact margins on a random sample.

    :param entries: Number of entries in the sample.
    :param known: Number of known entries among them.
    :param equal: Share of the entries with equal margins.
    :param decisions: For each ``min_margin``, the share of the known entries about which PLAC decides the same with
        both margins.
    """

    entries: int
    known: int
    equal: float
    decisions: dict[str, float]


class MarginManifest(Record):
    """Measured margins.

    :param store: The store's :attr:`~lacuna.datastore.store.Store.fingerprint`.
    :param max_margin: Larger margins are written as this.
    :param approximate: The settings, if the margins are approximate.
    :param agreement: For approximate margins.
    :param data: The file of the margins.
    :param unknown: The file of the unknown distances; None for approximate margins and for those of earlier versions.
    """

    format: int = FORMAT
    kind: Literal["margins"] = "margins"
    store: str
    entries: int = Field(ge=0)
    max_margin: int = Field(ge=1, le=_MAX_UINT16)
    method: Literal["exact", "approximate"]
    approximate: Approximate | None = None
    agreement: Agreement | None = None
    data: FileRecord
    unknown: FileRecord | None = None
    rows: FileRecord | None = None


@dataclass(frozen=True, eq=False)
class Margins:
    """The knowledge margin of each entry of a store.

    An entry's *unknown distance* is the squared distance to its nearest other unknown entry, infinity if there is none.
    Where the margin is ``max_margin``, it may be less: any distance that no unknown entry is nearer than, and that
    ``max_margin`` known ones are. So it always holds that the margin is the number of known entries nearer than the
    unknown distance, up to ``max_margin``, and that no unknown entry is nearer.

    :param path: The folder of the margins.
    :param values: ``(entries,)``, at most ``manifest.max_margin``.
    :param unknown_distance: ``(entries,)``; None if it was not measured. Margins without it cannot be updated.
    """

    path: Path
    manifest: MarginManifest
    values: NDArray[np.uint16]
    unknown_distance: NDArray[np.float64] | None

    def capped(self, max_margin: int) -> NDArray[np.uint16]:
        """Return the margins that a measurement with a smaller ``max_margin`` would give."""
        if not 1 <= max_margin <= self.manifest.max_margin:
            raise StoreError(
                f"{self.path}: measured up to {self.manifest.max_margin}, but {max_margin} is needed; "
                f"measure again with lacuna margin {self.path.parent} and `max_margin` {max_margin}"
            )
        return np.minimum(self.values, np.uint16(max_margin))


def check_max_margin(max_margin: int) -> None:
    """Check the range of ``max_margin``."""
    if not 1 <= max_margin <= _MAX_UINT16:
        raise SettingError(f"max_margin: got {max_margin}; allowed: 1 to {_MAX_UINT16:,}")


def write_margins(
    store: Store,
    values: NDArray[np.uint16],
    max_margin: int,
    approximate: Approximate | None = None,
    agreement: Agreement | None = None,
    unknown_distance: NDArray[np.float64] | None = None,
) -> Margins:
    """Write margins and replace earlier ones; the manifest is written last.

    :param unknown_distance: As in :class:`Margins`.
    """
    folder = store.path / FOLDER
    with writing(folder):
        (folder / MANIFEST).unlink(missing_ok=True)  # it does not describe the new files
        for name in (UNKNOWN, ROWS):
            (folder / name).unlink(missing_ok=True)
        _write_array(folder / MARGINS, values)
        if store.segments is not None:
            _write_array(folder / ROWS, store.rows)
        if unknown_distance is not None:
            _write_array(folder / UNKNOWN, unknown_distance)
        manifest = MarginManifest(
            store=store.fingerprint,
            entries=store.entries,
            max_margin=max_margin,
            method="exact" if approximate is None else "approximate",
            approximate=approximate,
            agreement=agreement,
            data=record_of(folder / MARGINS),
            unknown=None if unknown_distance is None else record_of(folder / UNKNOWN),
            rows=None if store.segments is None else record_of(folder / ROWS),
        )
        write_sealed(folder / MANIFEST, manifest)
    return Margins(folder, manifest, values, unknown_distance)


def _write_array(path: Path, array: NDArray[Any]) -> None:
    with atomic_path(path) as temporary:
        save_array(temporary, array)


def read_margins(store: Store) -> Margins:
    """Read the margins of a store.

    :raises StoreError: They have not been measured, belong to another state of the store, or are damaged.
    """
    folder, manifest = store.path / FOLDER, _read_margin_manifest(store)
    again = f"lacuna margin {store.path}"
    if manifest.store != store.fingerprint or manifest.entries != store.entries:
        raise StoreError(
            f"{folder}: the margins are of another store, or the store has changed since "
            f"({manifest.entries:,} margins, {store.entries:,} entries); measure them again with: {again}"
        )
    return _read_arrays(store, manifest)


def read_earlier_margins(store: Store) -> tuple[Margins, NDArray[np.int64]] | None:
    """Read the margins of an edited memory as they were measured, and the row number of each entry of that time.

    :return: None if there are none that the memory had before; for row numbers see
        :attr:`~lacuna.datastore.store.Store.rows`.
    """
    try:
        manifest = _read_margin_manifest(store)
        margins, saved = _read_arrays(store, manifest), None
        if manifest.rows is not None:
            saved = _read_array(store, ROWS, manifest.rows, np.int64, manifest.entries)
        rows = measured_rows(store, manifest.store, saved)
    except StoreError:
        return None
    return None if rows is None else (margins, rows)


def _read_margin_manifest(store: Store) -> MarginManifest:
    again = f"lacuna margin {store.path}"
    return read_manifest(
        store.path / FOLDER / MANIFEST,
        MarginManifest,
        StoreError,
        missing=f"{store.path}: has no margins; measure them first with: {again}",
        again=f"measure the margins again with: {again}",
    )


def _read_arrays(store: Store, manifest: MarginManifest) -> Margins:
    values = _read_array(store, MARGINS, manifest.data, np.uint16, manifest.entries)
    distances = None
    if manifest.unknown is not None:
        distances = _read_array(store, UNKNOWN, manifest.unknown, np.float64, manifest.entries)
    return Margins(store.path / FOLDER, manifest, values, distances)


def _read_array(store: Store, name: str, record: FileRecord, dtype: type[_Number], count: int) -> NDArray[_Number]:
    path, again = store.path / FOLDER / name, f"measure the margins again with: lacuna margin {store.path}"
    with reading(path, again):
        if record_of(path) != record:  # before numpy reads it: a damaged header makes it raise errors of many types
            raise StoreError(f"{path}: changed or damaged, it does not match its manifest; {again}")
        values: NDArray[_Number] = np.load(path, allow_pickle=False)
    if values.dtype != dtype or values.shape != (count,):
        raise StoreError(f"{path}: of another type or shape than its manifest says; {again}")
    return values
