"""The protocol between a format and the translation of a document: segments out, translations in.

A format cuts a file into parts, in order: bytes that stay as they are, and segments. What is written is each part's
bytes, or what a segment renders from its translations, so everything that is not translated is the same byte for byte.
Knows no format and no model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol

from lacuna.corpora.placeholders import ALONE, CLOSING, LAST, OPENING
from lacuna.errors import DocumentError
from lacuna.records import Languages

#: The character of an inline code, or of the document itself, such as an icon.
INLINE_CODE = re.compile(f"([{chr(OPENING)}-{chr(LAST)}])")


@dataclass(frozen=True, slots=True)
class Filled:
    """A translation for a place in a document.

    :param text: The translation, with the inline codes of its source.
    :param confidence: Mean calibrated confidence of its tokens, if there is a calibration.
    :param review: Whether a person should look at it.
    :param reason: Why, in a few words; empty without.
    :param match: Whether it is the translation of the same segment in a memory.
    """

    text: str
    confidence: float | None = None
    review: bool = False
    reason: str = ""
    match: bool = False


@dataclass(frozen=True, slots=True)
class DocumentSegment:
    """A part of a document that is translated.

    :param raw: Its bytes in the file.
    :param texts: What to translate, one text for each translation that the format has a place for: one for most, one
        for each plural form of a message. Inline codes are private-use characters; see :class:`InlineCodes`.
    :param render: Returns the bytes to write, from one translation for each text.
    :param existing: The translations that the file already has, one for each text, empty where there is none.
    :param place: Line number or id, for reports.
    :param unfinished: Whether the file says of each text that its translation is not finished, such as fuzzy in PO: a
        machine translation of it is not finished either. Empty if it says so of none.
    """

    raw: bytes
    texts: tuple[str, ...]
    render: Callable[[Sequence[Filled]], bytes]
    existing: tuple[str, ...] = ()
    place: str = ""
    unfinished: tuple[bool, ...] = ()


class Format(Protocol):
    """A file format."""

    @property
    def name(self) -> str:
        """The name of the format."""
        ...

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The suffixes of its files, with the dot and in lower case."""
        ...

    def parts(self, file: BinaryIO, name: str, languages: Languages) -> Iterator[bytes | DocumentSegment]:
        """Cut a file into bytes that stay and segments, in order; the concatenation of all bytes is the file.

        :param name: The name of the file, for errors.
        :param languages: The direction of the translation.
        :raises DocumentError: The file is malformed; the error names the line.
        """
        ...


@dataclass(slots=True)
class InlineCodes:
    """The inline codes of one text, such as tags, as private-use characters.

    A code that opens and the one that closes it get characters that belong together, so that the nesting of a
    translation can be checked without knowing the format.
    """

    _raw: dict[str, str] = field(default_factory=dict)
    _pairs: int = 0
    _alone: int = 0

    def pair(self, opening: str, closing: str) -> tuple[str, str]:
        """Return the characters for the markup that opens and closes a span."""
        if self._pairs > CLOSING - OPENING - 1:
            raise DocumentError(f"more than {CLOSING - OPENING:,} inline codes in a segment; split it")
        first, last = chr(OPENING + self._pairs), chr(CLOSING + self._pairs)
        self._pairs += 1
        self._raw |= {first: opening, last: closing}
        return first, last

    def alone(self, markup: str) -> str:
        """Return the character for markup that stands alone."""
        if self._alone > LAST - ALONE:
            raise DocumentError(f"more than {LAST - ALONE + 1:,} inline codes in a segment; split it")
        code = chr(ALONE + self._alone)
        self._alone += 1
        self._raw[code] = markup
        return code

    def protect(self, text: str) -> str:
        """Replace private-use characters of the document itself, such as icons, by codes."""
        return INLINE_CODE.sub(lambda match: self.alone(match[0]), text)

    def restore(self, text: str, escape: Callable[[str], str] = str) -> str:
        """Put the markup back into a translation.

        :param escape: Applied to the text between codes, for formats in which some characters are special.
        """
        parts: list[str] = []
        plain: list[str] = []
        for letter in text:
            if letter in self._raw:
                parts += [escape("".join(plain)), self._raw[letter]]
                plain = []
            else:
                plain.append(letter)
        return "".join([*parts, escape("".join(plain))])
