"""Read uploaded files and the fields next to them from a form. Files are spooled to disk, never held in memory.

The size of the whole body is limited by the middleware. A name of a client is never used as a path.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, BinaryIO, NamedTuple, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.datastructures import UploadFile
from starlette.requests import Request

from lacuna.documents import format_of
from lacuna.serving.limits import RequestError, ServerLimits, TooLarge

FIELD = "file"
_MULTIPART = "multipart/form-data"
_MAX_FIELDS = 16
_MAX_FIELD_BYTES = 1 << 15  # terms are the longest
_MAX_NAME = 100

Body = TypeVar("Body", bound=BaseModel)
Value = TypeVar("Value")


class Upload(NamedTuple):
    """An uploaded file.

    :param name: Without folders and control characters; its suffix is that of a format.
    """

    name: str
    file: BinaryIO
    fields: Mapping[str, str]


@asynccontextmanager
async def read_upload(request: Request, limits: ServerLimits) -> AsyncIterator[Upload]:
    """Read a form with one file; the file is deleted at the end of the block."""
    if not request.headers.get("content-type", "").lower().startswith(_MULTIPART):
        raise RequestError(f"the body is not a form with a file; send {_MULTIPART}, as with: curl -F file=@FILE")
    async with request.form(max_files=1, max_fields=_MAX_FIELDS, max_part_size=_MAX_FIELD_BYTES) as form:
        upload = form.get(FIELD)
        if not isinstance(upload, UploadFile):
            raise RequestError(f"{FIELD}: missing; send a form with a file, as with: curl -F {FIELD}=@FILE")
        if (upload.size or 0) > limits.max_file_bytes:
            raise TooLarge(f"the file has more than {limits.max_file_bytes:,} bytes; send a smaller one")
        name = safe_name(upload.filename or "")
        format_of(name)
        yield Upload(name, upload.file, {key: value for key, value in form.items() if isinstance(value, str)})


def safe_name(name: str) -> str:
    """Return the last part of a path, without characters that are special in paths and headers."""
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    plain = "".join(letter for letter in last if letter.isprintable() and letter not in '"<>|?*:%').strip(" .")
    stem, dot, suffix = plain.rpartition(".")
    if not stem:
        raise RequestError(f"{FIELD}: got no name with a suffix, which says the format; send one, such as messages.po")
    return stem[: _MAX_NAME - len(suffix)] + dot + suffix if len(suffix) < _MAX_NAME else stem[:_MAX_NAME]


def check_fields(kind: type[Body], fields: Mapping[str, Any]) -> Body:
    """Validate the fields of a form."""
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"][:1])) or "body"
        raise RequestError(f"{where}: {first['msg']}") from None


def check_json(name: str, kind: TypeAdapter[Value], text: str) -> Value:
    """Validate a field of a form that is written as JSON.

    :param name: Of the field.
    """
    try:
        return kind.validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise RequestError(f"{'.'.join(map(str, (name, *first['loc'])))}: {first['msg']}") from None
