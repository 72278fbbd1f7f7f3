"""MO: compiled gettext catalogs.

Files are not trusted: every string must be inside the file, and strings must not overlap, because a small file of
references to one long string would unpack to any size.
"""

from __future__ import annotations

import struct

from lacuna.errors import FormatError
from lacuna.formats.input_files import check_length
from lacuna.formats.po_entries import Catalog, Message, check_charset, header_fields

MAX_CATALOG_BYTES = 64_000_000  # after decompression; compiled catalogs are read whole, and real ones are far smaller

_MAGIC = 0x950412DE
_BYTE_ORDERS = {_MAGIC.to_bytes(4, "little"): "<", _MAGIC.to_bytes(4, "big"): ">"}
_MAX_REVISION = 1
_CONTEXT_END, _FORM_END = "\x04", "\0"


def parse_mo(content: bytes, name: str) -> Catalog:
    """Parse a compiled catalog.

    :param content: The file.
    :param name: The name of the file, for errors.
    :raises FormatError: The file is malformed.
    """
    try:
        strings = _strings(content, name)
        header = next((translation for key, translation in strings[:1] if not key), b"")
        charset = check_charset(header, name)
        messages = [_message(key.decode(charset), translation.decode(charset)) for key, translation in strings]
    except FormatError:
        raise
    except (ValueError, struct.error) as error:
        raise FormatError(f"{name}: malformed MO ({error}); compile the catalog again with: msgfmt") from error
    return Catalog(header_fields(header.decode(charset)), [message for message in messages if message.ids[0]])


def _strings(content: bytes, name: str) -> list[tuple[bytes, bytes]]:
    """Return the key and the translation of each message."""
    order = _BYTE_ORDERS.get(content[:4])
    if order is None:
        raise ValueError("not an MO file")
    # Magic number, revision, number of strings, where the tables of keys and translations start.
    _, revision, count, *starts = struct.unpack_from(f"{order}5I", content)
    if revision >> 16 > _MAX_REVISION:
        raise ValueError(f"revision {revision >> 16} of the format is not known")
    columns: list[list[bytes]] = []
    total = 0
    for start in starts:
        if start + 8 * count > len(content):
            raise ValueError(f"a table ends beyond the file's {len(content):,} bytes")
        spans = list(struct.iter_unpack(f"{order}2I", content[start : start + 8 * count]))
        for number, (length, offset) in enumerate(spans):
            check_length(f"{name}: message {number}", "the message", length)
            if offset + length > len(content):
                raise ValueError(f"message {number} ends beyond the file's {len(content):,} bytes")
            total += length
        if total > len(content):  # before they are copied
            raise ValueError(f"messages overlap: {total:,} bytes of text in a file of {len(content):,}")
        columns.append([content[offset : offset + length] for length, offset in spans])
    return list(zip(*columns, strict=True))


def _message(key: str, translation: str) -> Message:
    first, *plural = key.split(_FORM_END)[:2]
    context, separator, msgid = first.partition(_CONTEXT_END)
    texts = translation.split(_FORM_END) if plural else [translation]
    return Message(context if separator else "", (msgid if separator else first, *plural), tuple(texts))
