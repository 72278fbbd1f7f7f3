"""The cache of facts: what is known of a model's folder without loading the model.

An entry holds for a folder as long as no file in it has changed, by size and times. Anything that is unusual about an
entry means that there is none. Knows nothing of networks.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from lacuna.artifacts.files import write_text
from lacuna.artifacts.manifests import Record
from lacuna.artifacts.user_cache import cache_folder
from lacuna.models.facts import ModelFacts
from lacuna.version import __version__

FORMAT = 1
_PART = "models"


class FolderState(Record):
    """What an entry holds for.

    :param folder: The absolute path.
    :param files: Size, and times of the last change of content and of anything, of each file.
    """

    format: int
    version: str
    folder: str
    files: dict[str, tuple[int, int, int]]


class KnownModel(Record):
    """An entry of the cache.

    :param fingerprint: That of :mod:`lacuna.models.fingerprint`.
    """

    state: FolderState
    facts: ModelFacts
    fingerprint: str


def state_of(folder: Path) -> FolderState | None:
    """Return the state of a model's folder now; ``None`` if there is no such folder, or no cache."""
    if cache_folder(_PART) is None:
        return None
    try:
        place = folder.resolve()
        with os.scandir(place) as entries:
            stats = {entry.name: entry.stat() for entry in entries if entry.is_file()}
    except OSError:
        return None
    files = {name: (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) for name, stat in sorted(stats.items())}
    return FolderState(format=FORMAT, version=__version__, folder=str(place), files=files)


def read_known(state: FolderState) -> KnownModel | None:
    """Return what is known of a folder in this state."""
    path = _path(state)
    if path is None:
        return None
    try:
        known = KnownModel.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
    return known if known.state == state else None


def write_known(known: KnownModel) -> None:
    """Write an entry, unless the folder has changed since its state was read, or the cache cannot be written."""
    path = _path(known.state)
    if path is not None and state_of(Path(known.state.folder)) == known.state:
        with suppress(OSError):
            write_text(path, known.model_dump_json())


def _path(state: FolderState) -> Path | None:
    """Return the file of an entry, if there is a cache: one for each folder, which replaces the one before."""
    folder = cache_folder(_PART)
    return None if folder is None else folder / f"{hashlib.sha256(os.fsencode(state.folder)).hexdigest()[:32]}.json"
