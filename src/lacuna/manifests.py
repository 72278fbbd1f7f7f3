"""Reading a manifest: a JSON file that says which format it has, and often of what kind it is.

Read strictly, and in this order: format and kind first, because another format may have other fields. Knows nothing of
what a manifest describes.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from lacuna.errors import LacunaError
from lacuna.files import write_json

# Key of the checksum that a sealed manifest contains.
_CHECKSUM = "checksum"


class Record(BaseModel):
    """A part of a manifest: a field too many, too few or of another type is an error."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


_R = TypeVar("_R", bound=BaseModel)


def read_manifest(path: Path, record: type[_R], error: type[LacunaError], *, missing: str, again: str) -> _R:
    """Read a manifest, or say why it cannot be trusted, with an error of the caller's kind.

    :param record: Has a field ``format`` whose default is the one format that is known; and a field ``kind``, where its
        default is the only value allowed.
    :param missing: The whole message where there is no such file.
    :param again: The way out of everything else, as ``copy or build the store again``.
    """
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text)
    except (FileNotFoundError, NotADirectoryError) as reason:
        raise error(missing) from reason
    except OSError as reason:
        raise error(f"{path}: cannot be read ({reason.strerror}); check the permissions, or {again}") from reason
    except ValueError as reason:
        raise error(f"{path}: not JSON ({reason}); {again}") from reason
    if not isinstance(content, dict):
        raise error(f"{path}: content: got {type(content).__name__}; a manifest is one JSON object: {again}")
    fields = record.model_fields
    kind = fields["kind"].default if "kind" in fields and not fields["kind"].is_required() else None
    if kind is not None and content.get("kind") != kind:
        raise error(f"{path}: of kind {content.get('kind')!r}, not {kind!r}; name another folder, or {again}")
    if content.get("format") != fields["format"].default:
        raise error(
            f"{path}: has format {content.get('format')!r}, this version of Lacuna knows format "
            f"{fields['format'].default}; use the version that wrote it, or {again}"
        )
    checksum = content.pop(_CHECKSUM, None)
    try:
        manifest = record.model_validate_json(json.dumps(content))
    except ValidationError as reason:
        first = reason.errors()[0]
        place = ".".join(map(str, first["loc"])) or "content"
        raise error(f"{path}: {place}: {first['msg']}; {again}") from reason
    if checksum is not None and checksum != _checksum_of(content):
        raise error(f"{path}: {_EDITED}; {again}")
    return manifest


_EDITED = "edited or damaged, its content does not match its checksum"


def write_sealed(path: Path, manifest: BaseModel) -> None:
    """Write a manifest with a checksum of its own content, so that any later edit is noticed."""
    content = manifest.model_dump(mode="json", by_alias=True)
    write_json(path, content | {_CHECKSUM: _checksum_of(content)})


def seal_problem(path: Path) -> str | None:
    """Return what is wrong with a manifest's checksum.

    Manifests without a checksum were written by versions before 0.2, and cannot be checked.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as reason:
        return f"{path}: cannot be read ({reason})"
    if not isinstance(content, dict):
        return f"{path}: content: got {type(content).__name__}; a manifest is one JSON object"
    checksum = content.pop(_CHECKSUM, None)
    return None if checksum in (None, _checksum_of(content)) else f"{path}: {_EDITED}"


def _checksum_of(content: dict[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
