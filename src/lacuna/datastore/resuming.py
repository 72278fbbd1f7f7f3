"""Starting a build, or going on with one: what is in the folder decides. Every refusal leaves the folder as it was.

Knows nothing of keys; of the model only its record.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lacuna.datastore.columns import shard_folder
from lacuna.datastore.manifest import (
    MANIFEST,
    UNFINISHED,
    Manifest,
    Unfinished,
    read_manifest,
    read_unfinished,
    write_record,
)
from lacuna.datastore.windows import Meter
from lacuna.errors import StoreError
from lacuna.records import SentencePair


def look_into(folder: Path, wanted: Unfinished) -> Manifest | Unfinished:
    """Return what is in the folder, once it is sure that it is the same build; ``wanted`` itself if nothing is.

    :raises StoreError: Something else is there.
    """
    found: Manifest | Unfinished
    try:
        if not folder.exists():
            _check_place(folder)
            return wanted
        names = {entry.name for entry in folder.iterdir()}
    except OSError as error:
        raise StoreError(f"{folder}: not a folder that can be read ({error.strerror}); name another") from error
    if MANIFEST in names:
        found = read_manifest(folder)
        if found.parent is not None:
            raise StoreError(f"{folder}: already there, made by {found.parent.made_by}; name a new folder")
    elif UNFINISHED in names:
        found = read_unfinished(folder)
    # What a kill can leave behind while the very first file is written.
    elif all(name.startswith(f".{UNFINISHED}.") for name in names):
        return wanted
    else:
        raise StoreError(f"{folder}: not empty and not a store; name a new folder")
    _refuse_other_build(folder, found, wanted)
    return found


def pass_over(pairs: Iterator[SentencePair], meter: Meter, found: Manifest | Unfinished, folder: Path) -> None:
    """Read over the pairs that are in the store already, and make sure that they are still the same.

    A finished store must hold all there are.
    """
    finished = isinstance(found, Manifest)
    meter.pass_over(pairs, None if finished else found.corpus.pairs)
    seen, stored = meter.record(), found.corpus
    if (seen.pairs, seen.xxh3) != (stored.pairs, stored.xxh3):
        state = "already there, built" if finished else "begun"
        raise StoreError(
            f"{folder}: {state} from other sentence pairs ({stored.pairs:,} of them); "
            "give the same corpus and cleaning, or name a new folder"
        )
    meter.skipped = stored.skipped


def begin(folder: Path, state: Unfinished) -> None:
    """Make the folder, or sweep out what a kill has left half done."""
    for number, shard in enumerate(state.shards):
        for name, record in shard.files.items():
            path = shard_folder(folder, number) / name
            if not path.is_file() or path.stat().st_size != record.bytes:
                raise StoreError(f"{path}: missing or cut off since the build began; remove {folder} and build anew")
    with writing(folder):
        if not (folder / UNFINISHED).exists():  # the first of all: by it a folder is known as ours
            write_record(folder / UNFINISHED, state)
        (folder / "shards").mkdir(exist_ok=True)
        noted = {shard_folder(folder, number).name for number in range(len(state.shards))}
        for entry in [*folder.glob(".*.tmp"), *(folder / "shards").iterdir()]:
            if entry.name not in noted:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def finish(folder: Path, manifest: Manifest) -> None:
    """Turn an unfinished store into a finished one: the manifest is the last file to appear."""
    with writing(folder):
        write_record(folder / MANIFEST, manifest)
        sweep(folder)


def sweep(folder: Path) -> None:
    """Remove what is of use only while a store is built."""
    (folder / UNFINISHED).unlink(missing_ok=True)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn a failure to write into an error that names the folder."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or os.strerror(error.errno) if error.errno else str(error)
        raise StoreError(
            f"{folder}: cannot be written ({reason}); free space or mend the permissions, then run the same command"
        ) from error


def _check_place(folder: Path) -> None:
    """Refuse, before any work, a folder that could not be made."""
    place = next(parent for parent in folder.parents if parent.exists())
    if not place.is_dir() or not os.access(place, os.W_OK):
        reason = "permission is missing" if place.is_dir() else "it is not a folder"
        raise StoreError(f"{folder}: cannot be written below {place} ({reason}); name another folder")


def _refuse_other_build(folder: Path, found: Manifest | Unfinished, wanted: Unfinished) -> None:
    state = "already there, built" if isinstance(found, Manifest) else "begun"
    if found.model.fingerprint != wanted.model.fingerprint or found.model.languages != wanted.model.languages:
        raise StoreError(
            f"{folder}: {state} with another model ({found.model.name}, {found.model.languages}); "
            "use that model, or name a new folder"
        )
    if found.settings != wanted.settings:
        settings = ", ".join(f"{name} {value}" for name, value in found.settings.model_dump().items())
        raise StoreError(f"{folder}: {state} with other settings ({settings}); use these, or name a new folder")
