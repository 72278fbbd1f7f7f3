"""What a margin folder says of itself, ``STORE/margin/manifest.json``, and the margins beside it.

Read strictly, like the store's own. Holds no time and no host, so that equal margins are equal bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lacuna.datastore import Store
from lacuna.datastore.building import writing
from lacuna.datastore.columns import record_of
from lacuna.datastore.manifest import FileRecord
from lacuna.errors import SettingError, StoreError
from lacuna.files import atomic_path, write_json
from lacuna.manifests import Record, read_manifest

FORMAT = 1
FOLDER = "margin"
MANIFEST = "manifest.json"
MARGINS = "margin.npy"

MAX_MARGIN = 2048
_LARGEST = int(np.iinfo(np.uint16).max)


@dataclass(frozen=True)
class Approximate:
    """Settings of approximate margins.

    :param probes: Lists that each list of entries is compared with, itself counted.
    :param lists: Lists to divide the store into; by default four times the root of its entries.
    :param seed: Decides the lists, and the sample that is compared with exact margins.
    :param sample: Entries in this sample.
    """

    probes: int = 32
    lists: int | None = None
    seed: int = 1
    sample: int = 2000

    def __post_init__(self) -> None:
        for name, value, least in (
            ("probes", self.probes, 1),
            ("lists", self.lists, 1),
            ("seed", self.seed, 0),
            ("sample", self.sample, 1),
        ):
            if value is not None and value < least:
                raise SettingError(f"{name}: got {value}; allowed is {least} or more")


class Agreement(Record):
    """How approximate margins compare with exact ones, on a random sample.

    :param entries: Entries in the sample.
    :param known: Known ones among them.
    :param equal: Share of the entries whose margin is the same.
    :param decisions: For each ``min_margin``, the share of the known entries for which it does not matter to pruning
        which of the two margins is taken.
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
    """

    format: int = FORMAT
    kind: Literal["margins"] = "margins"
    store: str
    entries: int = Field(ge=0)
    max_margin: int = Field(ge=1, le=_LARGEST)
    method: Literal["exact", "approximate"]
    approximate: Approximate | None = None
    agreement: Agreement | None = None
    data: FileRecord


@dataclass(frozen=True, eq=False)
class Margins:
    """The knowledge margin of each entry of a store.

    :param values: ``(entries,)``, at most ``manifest.max_margin``.
    """

    path: Path
    manifest: MarginManifest
    values: NDArray[np.uint16]

    def capped(self, max_margin: int) -> NDArray[np.uint16]:
        """Return margins as measuring with a smaller ``max_margin`` would have given them."""
        if not 1 <= max_margin <= self.manifest.max_margin:
            raise StoreError(
                f"{self.path}: measured up to {self.manifest.max_margin}, {max_margin} was asked for; "
                f"measure again with: lacuna margin {self.path.parent} --max-margin {max_margin}"
            )
        return np.minimum(self.values, np.uint16(max_margin))


def check_max_margin(max_margin: int) -> None:
    """Refuse what a margin cannot be."""
    if not 1 <= max_margin <= _LARGEST:
        raise SettingError(f"max_margin: got {max_margin}; allowed is 1 to {_LARGEST:,}")


def write_margins(
    store: Store,
    values: NDArray[np.uint16],
    max_margin: int,
    approximate: Approximate | None = None,
    agreement: Agreement | None = None,
) -> MarginManifest:
    """Write margins in place of earlier ones; the manifest is the last to appear."""
    folder = store.path / FOLDER
    with writing(folder):
        (folder / MANIFEST).unlink(missing_ok=True)  # from here on the earlier ones are gone
        with atomic_path(folder / MARGINS) as temporary, temporary.open("wb") as file:
            np.save(file, values, allow_pickle=False)
        manifest = MarginManifest(
            store=store.fingerprint,
            entries=store.entries,
            max_margin=max_margin,
            method="exact" if approximate is None else "approximate",
            approximate=approximate,
            agreement=agreement,
            data=record_of(folder / MARGINS),
        )
        write_json(folder / MANIFEST, manifest.model_dump(mode="json"))
    return manifest


def read_margins(store: Store) -> Margins:
    """Read the margins of a store.

    :raises StoreError: They are not measured, of another state of the store, or damaged.
    """
    folder = store.path / FOLDER
    again = f"lacuna margin {store.path}"
    manifest = read_manifest(
        folder / MANIFEST,
        MarginManifest,
        StoreError,
        missing=f"{store.path}: has no margins yet; measure them first with: {again}",
        again=f"measure the margins again with: {again}",
    )
    if manifest.store != store.fingerprint or manifest.entries != store.entries:
        raise StoreError(
            f"{folder}: these margins are of another store, or the store has changed since "
            f"({manifest.entries:,} margins, {store.entries:,} entries); measure them again with: {again}"
        )
    path = folder / MARGINS
    try:
        found = record_of(path)
        values = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: cannot be read ({error}); measure the margins again with: {again}") from error
    if found != manifest.data or values.dtype != np.uint16 or values.shape != (store.entries,):
        raise StoreError(
            f"{path}: changed or damaged, it is not what its manifest says; measure the margins again with: {again}"
        )
    return Margins(folder, manifest, values)
