"""PO entries: the bytes of a file, and what they say."""

import io

import pytest

from lacuna.errors import CorpusError, DocumentError
from lacuna.formats.po_entries import Message, PoEntry, header_language, read_entries, read_po

PO = r"""
msgid ""
msgstr "Content-Type: text/plain; charset=ISO-8859-1\nLanguage: pt_BR\n"

# note
#. extracted
#.   more
#.
#, c-format
#| msgid "before"
msgctxt "menu"
msgid "a\t"
"b"
msgstr "bão"

#, fuzzy
msgid "c"
msgstr "d"

msgid "e"
msgid_plural "f"
msgstr[0] "g"
msgstr[2] "i"
msgstr[1] "h"

#~ msgid "old"
#~ msgstr "velho"
""".encode("iso-8859-1")


def entries(content: bytes) -> list[PoEntry]:
    parts = list(read_entries(io.BytesIO(content), "a.po"))
    assert b"".join(part if isinstance(part, bytes) else part.raw for part in parts) == content
    return [part for part in parts if isinstance(part, PoEntry)]


def test_entries_are_the_file() -> None:
    found = entries(PO)
    assert [(entry.line, entry.is_header, entry.is_fuzzy) for entry in found] == [
        (2, True, False),
        (11, False, False),
        (17, False, True),
        (20, False, False),
    ]
    assert entries(PO.replace(b"\n", b"\r\n"))[1].message == found[1].message


def test_a_catalog_has_the_finished_messages() -> None:
    catalog = read_po(io.BytesIO(PO), "a.po")
    assert header_language(catalog.header, "Language") == "pt"
    assert list(catalog.messages) == [
        Message("menu", ("a\tb",), ("bão",), "extracted\nmore"),
        Message("", ("e", "f"), ("g", "h", "i")),
    ]


def test_only_what_is_translated_changes() -> None:
    entry = entries(PO)[1]
    assert entry.write(entry.head, {"msgstr": "x\ny"}) == entry.raw.replace(b'"b\xe3o"', b'""\n"x\\n"\n"y"')


def test_an_empty_message_with_plural_forms_is_no_header() -> None:
    assert list(read_po(io.BytesIO(b'msgid ""\nmsgid_plural "a"\nmsgstr[0] ""\n'), "a.po").messages) == []


@pytest.mark.parametrize("kind", [CorpusError, DocumentError])
def test_a_malformed_file_is_neither_corpus_nor_document(kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"a\.po:1: malformed PO"):
        entries(b"broken\n")
