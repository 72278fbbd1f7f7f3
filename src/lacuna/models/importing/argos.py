"""Argos Translate packages: a zip, or the folder it was unpacked to, with a CTranslate2 model inside.

From a zip only the few files of a model are taken, by our own names for them, so no name in it can lead out of the
folder. Knows the packaging; nothing of models.
"""

from __future__ import annotations

import json
import lzma
import shutil
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from lacuna.errors import ModelError
from lacuna.records import Languages

_FILES = ("metadata.json", "sentencepiece.model", "bpe.model")
_MODEL_FILES = (
    "model.bin",
    "config.json",
    "vmap.txt",
    *(f"{side}_vocabulary.{ending}" for side in ("shared", "source", "target") for ending in ("json", "txt")),
)
_MOST_BYTES = 16 * 2**30
_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError)


def is_package_folder(folder: Path) -> bool:
    """Tell whether a folder is an unpacked package."""
    return (folder / "metadata.json").is_file() and (folder / "model" / "model.bin").is_file()


def unpack(package: Path, into: Path) -> None:
    """Take the files of a model out of a package, leaving its top folder's name away."""
    try:
        with zipfile.ZipFile(package) as archive:
            members = _members(archive, package)
            (into / "model").mkdir(parents=True)
            for name, member in members.items():
                with archive.open(member) as stored, (into / name).open("wb") as file:
                    shutil.copyfileobj(stored, file)
    except ModelError:
        raise
    # Damage shows as whatever the layer it hits raises: zip, compression, or a flag of encryption.
    except (*_DAMAGE, OSError, RuntimeError, ValueError) as error:
        raise ModelError(f"{package}: cannot be unpacked ({error}); download the package again") from error


def check_package(folder: Path, name: str) -> Languages:
    """See that an unpacked package is of a kind that can be imported, and give its direction."""
    try:
        metadata = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
        languages = Languages(str(metadata["from_code"]), str(metadata["to_code"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"{name}: its metadata.json names no from_code and to_code; it is no translation package"
        ) from error
    if (folder / "bpe.model").is_file():
        raise ModelError(f"{name}: cuts words by Moses and BPE (bpe.model), which a Marian tokenizer cannot do")
    if metadata.get("target_prefix"):
        raise ModelError(
            f"{name}: wants {metadata['target_prefix']} before every translation, which Marian cannot express"
        )
    return languages


def _members(archive: zipfile.ZipFile, package: Path) -> dict[str, zipfile.ZipInfo]:
    wanted = {*_FILES, *(f"model/{name}" for name in _MODEL_FILES)}
    members = {}
    for info in archive.infolist():
        path = PurePosixPath(info.filename)
        if path.is_absolute() or ".." in path.parts or "\\" in info.filename:
            raise ModelError(
                f"{package}: has a file named {info.filename!r}, outside of itself; do not use the package"
            )
        inner = "/".join(path.parts[1:])
        if inner in wanted and not info.is_dir():
            if inner in members:
                raise ModelError(f"{package}: has {inner} twice; it is no package of one model")
            members[inner] = info
    size = sum(info.file_size for info in members.values())
    if size > _MOST_BYTES:
        raise ModelError(f"{package}: unpacks to {size:,} bytes; {_MOST_BYTES:,} is the most that is taken for a model")
    if "model/model.bin" not in members:
        raise ModelError(f"{package}: has no model/model.bin; it is no translation package")
    return members
