"""MO: contexts and plural forms, and revisions of the format."""

import pytest

from lacuna.errors import FormatError
from lacuna.formats.mo import parse_mo
from lacuna.formats.po_entries import Message
from unit.corpora.mo_files import compile_mo


@pytest.mark.parametrize("order", ["<", ">"])
def test_messages(order: str) -> None:
    messages = {
        "": "Content-Type: text/plain; charset=ISO-8859-1\nLanguage: de\n",
        "a\0b": "c\0d\0e",
        "menu\x04f": "g",
        "menu\x04h\0i": "j",
    }
    catalog = parse_mo(compile_mo(messages, order), "a.mo")
    assert catalog.header["Language"] == "de"
    assert list(catalog.messages) == [
        Message("", ("a", "b"), ("c", "d", "e")),
        Message("menu", ("f",), ("g",)),
        Message("menu", ("h", "i"), ("j",)),
    ]


def test_an_unknown_revision_is_refused() -> None:
    content = bytearray(compile_mo({"": "", "a": "b"}))
    content[4:8] = (2 << 16).to_bytes(4, "little")
    with pytest.raises(FormatError, match=r"a\.mo: malformed MO \(revision 2 of the format is not known\)"):
        parse_mo(bytes(content), "a.mo")
