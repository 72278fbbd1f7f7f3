"""What the tests of all formats share: the parts of a file, and translations that need no model."""

import io
from collections.abc import Callable

from lacuna.corpora.placeholders import find_placeholders
from lacuna.documents.base import DocumentSegment, Filled, Format
from lacuna.errors import DocumentError
from lacuna.records import Languages

GERMAN = Languages("en", "de")


def cut(
    content: bytes, form: Format, name: str = "file", languages: Languages = GERMAN
) -> list[bytes | DocumentSegment]:
    """Return the parts of a file, after a check that they are the file."""
    parts = list(form.parts(io.BytesIO(content), name, languages))
    assert b"".join(part if isinstance(part, bytes) else part.raw for part in parts) == content
    return parts


def fill(parts: list[bytes | DocumentSegment], translate: Callable[[str], Filled]) -> bytes:
    """Return what is written, with a translation for each text."""
    return b"".join(
        part if isinstance(part, bytes) else part.render([translate(text) for text in part.texts]) for part in parts
    )


def shout(text: str) -> Filled:
    """Translate into capital letters, except for placeholders."""
    shouted = text.upper()
    for placeholder in find_placeholders(text):
        shouted = shouted.replace(placeholder.upper(), placeholder, 1)
    return Filled(shouted)


def problem(content: bytes, form: Format) -> str:
    """Return the error of reading a file and writing its translation, which is one line; empty without."""
    try:
        fill(cut(content, form), shout)
    except DocumentError as error:
        return str(error)
    return ""


def messages(parts: list[bytes | DocumentSegment]) -> list[DocumentSegment]:
    """Return the segments that have texts."""
    return [part for part in parts if isinstance(part, DocumentSegment) and part.texts]
