"""Read manifests: JSON files with a format number, and often a kind.

Reading is strict. Format and kind are checked before the fields, because another format may have other fields.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from lacuna.artifacts.files import write_json
from lacuna.errors import LacunaError

# Key of the checksum that a sealed manifest contains.
_CHECKSUM = "checksum"
_EDITED = "edited or damaged, its content does not match its checksum"


class Record(BaseModel):
    """A part of a manifest. An unknown field, a missing field or a field of another type is an error."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


_R = TypeVar("_R", bound=BaseModel)


def read_manifest(path: Path, record: type[_R], error: type[LacunaError], *, missing: str, again: str) -> _R:
    """Read a manifest, or raise an error of the caller's type.

    :param record: The fields. The default of ``format``, if there is such a field, is the only format allowed; the same
        holds for ``kind``.
    :param missing: The whole message if there is no such file.
    :param again: The remedy in all other cases, such as ``copy or build the store again``.
    """
    content = read_object(path, error, missing=missing, again=again)
    kind, form = (_only_value(record, name) for name in ("kind", "format"))
    if kind is not None and content.get("kind") != kind:
        raise error(f"{path}: of kind {content.get('kind')!r}, not {kind!r}; name another folder, or {again}")
    if form is not None and content.get("format") != form:
        raise error(
            f"{path}: has format {content.get('format')!r}, this version of Lacuna knows format {form}; "
            f"use the version that wrote it, or {again}"
        )
    checksum = content.pop(_CHECKSUM, None)
    try:
        # From text again: strict validation accepts a JSON array for a tuple only if it knows that the input is JSON.
        manifest = record.model_validate_json(json.dumps(content))
    except ValidationError as reason:
        first = reason.errors()[0]
        place = ".".join(map(str, first["loc"])) or "content"
        raise error(f"{path}: {place}: {first['msg']}; {again}") from reason
    if checksum is not None and checksum != _checksum_of(content):
        raise error(f"{path}: {_EDITED}; {again}")
    return manifest


def write_sealed(path: Path, manifest: BaseModel) -> None:
    """Write a manifest with a checksum of its own content, so that any later edit is noticed."""
    write_json(path, sealed(manifest.model_dump(mode="json", by_alias=True)))


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON object with a checksum of its own content."""
    return content | {_CHECKSUM: _checksum_of(content)}


def unsealed(content: dict[str, Any]) -> dict[str, Any] | None:
    """Return a JSON object without its checksum, if it has one; ``None`` if the content does not match it."""
    rest = {name: value for name, value in content.items() if name != _CHECKSUM}
    return rest if content.get(_CHECKSUM) in (None, _checksum_of(rest)) else None


def seal_problem(path: Path) -> str | None:
    """Return what is wrong with a manifest's checksum.

    Manifests without a checksum were written by versions before 0.2, and cannot be checked.
    """
    try:
        content = read_object(path, LacunaError, missing=f"{path}: missing", again="make the folder again")
    except LacunaError as error:
        return str(error)
    return f"{path}: {_EDITED}" if unsealed(content) is None else None


def _checksum_of(content: dict[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def read_object(path: Path, error: type[LacunaError], *, missing: str, again: str) -> dict[str, Any]:
    """Read a JSON object without checking its fields; parameters as in :func:`read_manifest`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as reason:
        raise error(missing) from reason
    except OSError as reason:
        raise error(f"{path}: cannot be read ({reason.strerror}); check the permissions, or {again}") from reason
    except (ValueError, RecursionError) as reason:
        raise error(f"{path}: not JSON ({reason}); {again}") from reason
    if not isinstance(content, dict):
        raise error(f"{path}: content: got {type(content).__name__}; a manifest is one JSON object: {again}")
    return content


def _only_value(record: type[BaseModel], name: str) -> Any:  # noqa: ANN401 - the default of any field
    field = record.model_fields.get(name)
    return None if field is None or field.is_required() else field.default
