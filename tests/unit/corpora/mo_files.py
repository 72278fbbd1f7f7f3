"""Compiled catalogs written by hand, after the description of the format in the manual of GNU gettext."""

from __future__ import annotations

import struct


def compile_mo(messages: dict[str, str], order: str = "<") -> bytes:
    r"""Compile messages; ids are written as gettext stores them: ``context\x04id`` and ``singular\0plural``."""
    pairs = sorted((source.encode(), target.encode()) for source, target in messages.items())
    tables, texts, offset = [b"", b""], b"", 28 + 16 * len(pairs)
    for side in (0, 1):
        for pair in pairs:
            tables[side] += struct.pack(f"{order}2I", len(pair[side]), offset + len(texts))
            texts += pair[side] + b"\0"
    start = 28
    header = struct.pack(f"{order}7I", 0x950412DE, 0, len(pairs), start, start + 8 * len(pairs), 0, offset)
    return header + tables[0] + tables[1] + texts
