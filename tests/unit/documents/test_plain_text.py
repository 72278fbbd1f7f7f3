"""Plain text: lines and encodings; and the spans and inline codes that all text formats share."""

import io
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.documents.base import Filled
from lacuna.documents.inline_markup import InlinePart, Kind, match_pairs, span_of
from lacuna.documents.plain_text import TextFormat
from lacuna.errors import DocumentError
from lacuna.formats.input_files import MAX_PART_BYTES
from unit.documents.fake_translations import GERMAN, cut, fill, messages, problem, shout

TEXT = TextFormat()
BOMS = {"utf-8": b"\xef\xbb\xbf", "utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}


def texts(content: bytes) -> list[str]:
    return [segment.texts[0] for segment in messages(cut(content, TEXT))]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_with_letters_is_a_segment(end: str) -> None:
    content = f"  The kettle boils.{end}{end}\tPour  it.  {end}-----{end}12:30{end}The end".encode()
    assert texts(content) == ["The kettle boils.", "Pour it.", "The end"]
    assert fill(cut(content, TEXT), shout) == content.replace(b"Pour  it", b"Pour it").upper()
    assert fill(cut(content, TEXT), Filled) == content
    assert [segment.place for segment in messages(cut(content, TEXT))] == ["1", "3", "6"]


@pytest.mark.parametrize("encoding", BOMS)
def test_encoding_and_byte_order_mark_are_kept(encoding: str) -> None:
    # U+0A0A and U+0D0A have bytes that are line ends in other encodings.
    content = BOMS[encoding] + "Größe ਊ ഊ\r\nzwei\n".encode(encoding)
    assert texts(content) == ["Größe ਊ ഊ", "zwei"]
    assert fill(cut(content, TEXT), lambda _: Filled("日本")) == BOMS[encoding] + "日本\r\n日本\n".encode(encoding)


def test_a_translation_stays_on_one_line() -> None:
    assert fill(cut(b"One line\n", TEXT), lambda _: Filled("Eine\nZeile")) == b"Eine Zeile\n"


def test_private_use_characters_are_codes() -> None:
    (segment,) = messages(cut("Press \uf8ff or \ue000".encode(), TEXT))
    assert segment.texts == ("Press \uf000 or \uf001",)
    assert segment.render([Filled("\uf001 oder \uf000")]) == "\ue000 oder \uf8ff".encode()


def test_a_line_with_more_icons_than_codes_stays() -> None:
    assert texts("\ue000 a".encode() * 3000) == []


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"fine\nalso\r\nnot \xe4 fine", "file:3: not UTF-8 (byte 0xe4); convert"),
        (b"a\n" * 10_000 + b"\xff\n", "file:10001: not UTF-8 (byte 0xff)"),
        (b"\xff\xfea\0\n\0\0\xd8", "file:2: not UTF-16-LE"),
        (b"\xff\xfea\0\n", "file:1: not UTF-16-LE"),
        (b"fine\nT\0e\0x\0t\0", "file:2: a NUL character"),
        (b"fine\n" + b"x" * (MAX_PART_BYTES + 1), f"file:2: the line is longer than {MAX_PART_BYTES:,} bytes"),
    ],
)
def test_errors_are_one_line(content: bytes, expected: str) -> None:
    found = problem(content, TEXT)
    assert found.startswith(expected)
    assert "\n" not in found


class Endless(io.BytesIO):
    """A file of the same bytes for ever, which counts how many were read."""

    position = 0

    def read(self, size: int | None = -1, /) -> bytes:
        assert size is not None
        assert size >= 0
        self.position += size
        return b"x" * size

    read1 = read

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self.position


def test_an_endless_line_is_not_read_to_its_end() -> None:
    file = Endless()
    with pytest.raises(DocumentError, match="longer than"):
        list(TEXT.parts(file, "file", GERMAN))
    assert file.position < 2 * MAX_PART_BYTES


def test_memory_does_not_grow_with_the_file() -> None:
    file = io.BytesIO((b"A line of the long file. " * 40 + b"\n") * 500)
    tracemalloc.start()
    try:
        assert sum(not isinstance(part, bytes) for part in TEXT.parts(file, "file", GERMAN)) == 500
        assert tracemalloc.get_traced_memory()[1] < 250_000
    finally:
        tracemalloc.stop()


def test_the_file_stays_open() -> None:
    file = io.BytesIO(b"one\ntwo\n")
    next(TEXT.parts(file, "file", GERMAN))
    assert not file.closed


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), st.sampled_from(list(BOMS)))
def test_parts_are_the_file(content: str, encoding: str) -> None:
    raw = BOMS[encoding] + content.encode(encoding)
    assert fill(cut(raw, TEXT), Filled) == raw


@given(st.binary())
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    assert "\n" not in problem(content, TEXT)


# --- inline markup ---------------------------------------------------------------------------------------------------

KINDS = {"<": Kind.OPEN, ">": Kind.CLOSE, "#": Kind.ALONE, "w": Kind.WORD}


def pieces(run: str) -> list[InlinePart]:
    """Return a piece for each character: ``(`` and ``<`` open, ``)`` and ``>`` close, ``#`` and ``w`` are alone."""
    kinds = KINDS | {"(": Kind.OPEN, ")": Kind.CLOSE}
    names = {"<": "angle", ">": "angle", "(": "round", ")": "round"}
    return [
        InlinePart(kinds.get(sign, Kind.TEXT), number, number + 1, sign, names.get(sign, ""))
        for number, sign in enumerate(run)
    ]


@pytest.mark.parametrize(
    ("run", "inside"),
    [
        (" <a> ", "a"),
        ("<#a>", "a"),
        ("<a>b", "<a>b"),
        ("a(<b>)", "a(<b>)"),
        ("#<a>(b)#", "<a>(b)"),
        ("<()a(b)>", "a(b)"),
        ("wa#", "wa"),
        ("<a", "a"),
        ("a>b", "a>b"),
        ("<(a>)b", "<(a>)b"),
        ("w", None),
        ("1 <#>", None),
        ("", None),
    ],
)
def test_markup_at_the_ends_stays_outside(run: str, inside: str | None) -> None:
    span = span_of(pieces(run), str)
    assert (run[span.start : span.end] if span else None) == inside
    assert span is None or span.render(span.text) == inside


@given(st.text("<>()#wab "))
def test_pairs_are_nested_and_whole(run: str) -> None:
    found = match_pairs(pieces(run))
    for opens, closes in found.items():
        assert run[opens] + run[closes] in ("<>", "()")
        assert not any(opens < other < closes < found[other] for other in found)
    span = span_of(pieces(run), str)
    if span:
        assert all(
            (span.start <= opens) == (span.start <= closes) for opens, closes in found.items() if closes < span.end
        )
        assert span.render(span.text) == run[span.start : span.end]
