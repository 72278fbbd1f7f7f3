"""The folder a fetch writes: whose it is, whether it is whole, and how new files take the place of old ones.

Knows nothing of packages or of what the settings in the manifest mean.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lacuna.corpora.writing import write_tsv
from lacuna.errors import FetchError
from lacuna.files import sha256_of, sync, write_json
from lacuna.records import SentencePair

#: What a manifest says of itself.
MANIFEST = "lacuna-fetch"
NAMES = ("manifest.json", "train.tsv", "dev.tsv", "test.tsv")
_STAGING = ".fetch-"  # the start of a staging folder's name; one is left behind only by a killed process


def check_folder(into: Path) -> dict[str, Any] | None:
    """Give the manifest of an earlier fetch, or None for a folder that is new, empty or holds no whole manifest.

    :param into: The folder to be written.
    :raises FetchError: It is no folder, is not ours, or cannot be written.
    """
    if into.exists() and not into.is_dir():
        raise FetchError(f"into: {into} is a file; name a folder")
    _check_writable(into)
    entries = sorted(entry.name for entry in into.iterdir()) if into.exists() else []
    ours = [name for name in entries if name in NAMES or name.startswith(_STAGING)]
    if ours != entries:
        strange = next(name for name in entries if name not in ours)
        raise FetchError(f"into: {into} holds {strange}, which no fetch wrote; name a new or empty folder")
    manifest = _read_manifest(into / "manifest.json")
    if manifest is None and any(name in NAMES for name in entries):
        raise FetchError(f"into: {into} holds {', '.join(entries)} but no manifest of a fetch; name a new folder")
    return manifest


def _check_writable(into: Path) -> None:
    nearest = next(folder for folder in (into, *into.absolute().parents) if folder.exists())
    if not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
        raise FetchError(f"into: {into} cannot be written ({nearest} is closed to you); name another folder")


def _read_manifest(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and content.get("kind") == MANIFEST else None


def is_whole(into: Path, manifest: Mapping[str, Any]) -> bool:
    """Tell whether all files are there and have the hashes the manifest gives them."""
    return all(
        (into / name).is_file() and sha256_of(into / name) == facts["sha256"]
        for name, facts in manifest["files"].items()
    )


def publish(into: Path, parts: Mapping[str, Sequence[SentencePair]], manifest: dict[str, Any]) -> dict[str, Any]:
    """Write all files aside, then put them in place; give the manifest with the files' hashes.

    :param into: The folder, as :func:`check_folder` passed it.
    :param parts: The pairs of each file.
    :param manifest: What to record beside the files.
    """
    try:
        into.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=into, prefix=_STAGING) as name:
            staging = Path(name)
            files = {part: _write(staging / part, pairs) for part, pairs in parts.items()}
            whole = {**manifest, "files": files}
            write_json(staging / "manifest.json", whole)
            # The manifest goes first: it marks the folder as ours, and its hashes tell a half-published folder.
            for part in ("manifest.json", *parts):
                (staging / part).replace(into / part)
        sync(into)
    except OSError as error:
        raise FetchError(f"into: cannot write {into} ({error.strerror}); free the folder or name another") from error
    return whole


def _write(path: Path, pairs: Sequence[SentencePair]) -> dict[str, Any]:
    return {"pairs": write_tsv(path, pairs), "sha256": sha256_of(path)}
