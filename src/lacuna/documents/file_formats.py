"""The formats by suffix: the one place that knows all of them."""

from __future__ import annotations

from lacuna.documents.base import Format
from lacuna.documents.html_pages import HtmlFormat
from lacuna.documents.json_messages import JsonFormat
from lacuna.documents.markdown import MarkdownFormat
from lacuna.documents.plain_text import TextFormat
from lacuna.documents.po import PoFormat
from lacuna.documents.tmx import TmxFormat
from lacuna.documents.xliff import XliffFormat
from lacuna.errors import DocumentError

FORMATS: tuple[Format, ...] = (
    TextFormat(),
    MarkdownFormat(),
    HtmlFormat(),
    PoFormat(),
    XliffFormat(),
    TmxFormat(),
    JsonFormat(),
)
_BY_SUFFIX = {suffix: file_format for file_format in FORMATS for suffix in file_format.suffixes}


def format_of(name: str) -> Format:
    """Return the format of a file by its suffix.

    :raises DocumentError: The suffix is unknown.
    """
    suffix = _suffix(name)
    if suffix not in _BY_SUFFIX:
        raise DocumentError(
            f"{name}: cannot translate {suffix or 'a file without suffix'}; allowed: {known_suffixes()}"
        )
    return _BY_SUFFIX[suffix]


def is_document(name: str) -> bool:
    """Tell whether the suffix of a file is one of a format."""
    return _suffix(name) in _BY_SUFFIX


def _suffix(name: str) -> str:
    return f".{name.rpartition('.')[2].lower()}" if "." in name else ""


def known_suffixes() -> str:
    """List the suffixes of all formats."""
    return ", ".join(_BY_SUFFIX)
