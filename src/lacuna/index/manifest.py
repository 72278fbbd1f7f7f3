"""The manifest of an index, ``STORE/index/manifest.json``.

It contains no time and no host name, so equal indexes have equal manifests.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from lacuna.artifacts.files import sha256_of
from lacuna.artifacts.manifests import Record, write_sealed
from lacuna.artifacts.manifests import read_manifest as read_record
from lacuna.errors import IndexingError
from lacuna.index.base import KeyStore

FORMAT = 1
FOLDER = "index"
MANIFEST = "manifest.json"


class DataFile(Record):
    """The faiss index file."""

    file: str = Field(pattern=r"^index-[0-9a-f]{16}\.faiss$")
    bytes: int = Field(ge=0)
    sha256: str


class IndexManifest(Record):
    """A finished index.

    :param asked: The requested kind.
    :param kind: The kind that was built: ``exact``, or a faiss factory string.
    :param why: The reason for this kind.
    :param probes: nprobe.
    :param ef: efSearch.
    :param training_rows: Number of training keys; 0 if the kind is not trained.
    :param store: SHA-256 of the store's manifest.
    :param data: None for ``exact``, which has no index file.
    :param notes: Warnings for the user.
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
    """Return the SHA-256 of the store's manifest, which contains the hashes of all its files."""
    path = store.path / MANIFEST
    try:
        return sha256_of(path)
    except OSError as error:
        raise IndexingError(
            f"{path}: cannot be read ({error.strerror}); name the folder of a finished store"
        ) from error


def write_manifest(store: KeyStore, manifest: IndexManifest) -> None:
    """Write the manifest, which makes the index the one of its store."""
    write_sealed(store.path / FOLDER / MANIFEST, manifest)


def read_manifest(store: KeyStore) -> IndexManifest:
    """Read the manifest of a store's index.

    :raises IndexingError: There is no index, it belongs to other rows, or the manifest is damaged.
    """
    again = _again(store.path)
    manifest = read_record(
        store.path / FOLDER / MANIFEST,
        IndexManifest,
        IndexingError,
        missing=f"{store.path}: this store has no index; build it with: {again}",
        again=f"build the index again with: {again}",
    )
    if manifest.store != store_identity(store) or manifest.rows != store.keys.rows:
        raise IndexingError(
            f"{store.path}: the index is of another store, or the store has changed since "
            f"(index: {manifest.rows:,} entries, store: {store.keys.rows:,}); build it again with: {again}"
        )
    return manifest


def checked_data(store: KeyStore, data: DataFile) -> Path:
    """Return the path of the index file after checking its hash; faiss does not check what it reads."""
    path = store.path / FOLDER / data.file
    try:
        size, sha256 = path.stat().st_size, sha256_of(path)
    except OSError as error:
        raise IndexingError(
            f"{path}: cannot be read ({error.strerror}); build the index again with: {_again(store.path)}"
        ) from error
    if sha256 != data.sha256:
        raise IndexingError(
            f"{path}: damaged or cut short, its hash differs from the manifest's ({size:,} of {data.bytes:,} bytes); "
            f"build the index again with: {_again(store.path)}"
        )
    return path


def _again(path: Path) -> str:
    return f"lacuna index {path}"
