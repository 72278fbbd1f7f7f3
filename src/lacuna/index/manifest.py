"""What an index folder says of itself: ``STORE/index/manifest.json``.

Read strictly, like the store's own. Holds no time and no host, so that equal indexes are equal bytes.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from lacuna.errors import IndexingError
from lacuna.files import sha256_of, write_json
from lacuna.index.base import KeyStore
from lacuna.manifests import Record
from lacuna.manifests import read_manifest as read_record

FORMAT = 1
FOLDER = "index"
MANIFEST = "manifest.json"


class DataFile(Record):
    """The file that faiss reads."""

    file: str = Field(pattern=r"^index-[0-9a-f]{16}\.faiss$")
    bytes: int = Field(ge=0)
    sha256: str


class IndexManifest(Record):
    """A finished index.

    :param asked: The kind that was asked for.
    :param kind: The kind that was made: ``exact``, or a faiss factory string.
    :param why: Why this kind.
    :param training_rows: Keys drawn for training; 0 where none is needed.
    :param store: SHA-256 of the manifest of the store whose rows the ids mean.
    :param data: None for ``exact``, which needs none.
    :param notes: What the user should know of this index.
    """

    format: int = FORMAT
    asked: str
    kind: str
    why: str
    seed: int
    probes: int | None = None
    ef: int | None = None
    rerank: int = 0
    rows: int = Field(ge=0)
    dimension: int = Field(ge=1)
    training_rows: int = 0
    store: str
    data: DataFile | None = None
    notes: tuple[str, ...] = ()


def store_identity(store: KeyStore) -> str:
    """Hash the store's manifest: it holds the hashes of all its files."""
    path = store.path / MANIFEST
    try:
        return sha256_of(path)
    except OSError as error:
        raise IndexingError(
            f"{path}: cannot be read ({error.strerror}); name the folder of a finished store"
        ) from error


def write_manifest(store: KeyStore, manifest: IndexManifest) -> None:
    """Publish an index: from this moment it is the store's."""
    write_json(store.path / FOLDER / MANIFEST, manifest.model_dump(mode="json"))


def read_manifest(store: KeyStore) -> IndexManifest:
    """Read the manifest of the store's index, or say why there is none to be trusted."""
    again = _again(store.path)
    manifest = read_record(
        store.path / FOLDER / MANIFEST,
        IndexManifest,
        IndexingError,
        missing=f"{store.path}: this store has no index; make it with: {again}",
        again=f"make the index again with: {again}",
    )
    if manifest.store != store_identity(store) or manifest.rows != store.keys.rows:
        raise IndexingError(
            f"{store.path}: the index is of another store, or the store has changed since "
            f"(index: {manifest.rows:,} entries, store: {store.keys.rows:,}); make it again with: {again}"
        )
    return manifest


def checked_data(store: KeyStore, data: DataFile) -> Path:
    """Return the path of the data file after comparing its hash: faiss trusts whatever it reads."""
    path = store.path / FOLDER / data.file
    try:
        size, found = path.stat().st_size, sha256_of(path)
    except OSError as error:
        raise IndexingError(
            f"{path}: cannot be read ({error.strerror}); make the index again with: {_again(store.path)}"
        ) from error
    if found != data.sha256:
        raise IndexingError(
            f"{path}: damaged or cut short, its hash differs from the manifest's ({size:,} of {data.bytes:,} bytes); "
            f"make the index again with: {_again(store.path)}"
        )
    return path


def _again(path: Path) -> str:
    return f"lacuna index {path}"
