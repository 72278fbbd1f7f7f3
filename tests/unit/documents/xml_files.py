"""XML files for tests: units with any content, read in chunks of any size, and translated without a model."""

import io
from collections.abc import Callable, Iterable
from itertools import cycle

from hypothesis import strategies as st

from lacuna.documents.base import DocumentSegment, Filled, Format
from lacuna.formats.xml_units import XmlPart, escape
from lacuna.formats.xml_units import cut as cut_xml
from lacuna.records import Languages
from unit.documents.fake_translations import GERMAN, cut, messages

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]) | st.sampled_from("\n\t é漢😀\ue005"))
CONTENT = st.recursive(
    TEXT.map(escape) | st.sampled_from(["<!-- - -->", "<![CDATA[<u>]]>", "&#13;", "<?p ?>", '<bpt id="1">{</bpt>']),
    lambda inner: (
        st.builds("<{0} id='{2}'>{1}</{0}>".format, st.sampled_from(["g", "x", "u"]), inner, st.integers(0, 3))
        | st.lists(inner, max_size=4).map("".join)
    ),
    max_leaves=8,
)


class Chunks(io.BytesIO):
    """A file that returns as many bytes as it likes."""

    def __init__(self, content: bytes, sizes: Iterable[int] = (7,)) -> None:
        super().__init__(content)
        self.sizes = cycle(sizes)

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(next(self.sizes))


def segments(format: Format, content: bytes, languages: Languages = GERMAN) -> list[DocumentSegment]:
    """Return the segments with texts, after a check that nothing of the file is lost."""
    return messages(cut(content, format, "a.xml", languages))


def translate(
    format: Format, content: bytes, fill: Callable[[str], Filled], languages: Languages = GERMAN, keep: bool = True
) -> bytes:
    """Translate a file as the driver does: what exists is kept."""
    written = []
    for part in format.parts(Chunks(content), "a.xml", languages):
        if isinstance(part, bytes):
            written.append(part)
            continue
        existing = part.existing or ("",) * len(part.texts)
        filled = [Filled(old) if old and keep else fill(text) for text, old in zip(part.texts, existing, strict=True)]
        written.append(part.render(filled))
    return b"".join(written)


def pieces(content: bytes, sizes: Iterable[int] = (7,)) -> list[XmlPart]:
    """Return the units ``<u>`` and the tags ``<f>`` of a file, after a check that nothing is lost."""
    parts = list(cut_xml(Chunks(content, sizes), "a.xml", "r", {"u"}, {"f"}))
    assert b"".join(part if isinstance(part, bytes) else part.raw for part in parts) == content
    return [part for part in parts if isinstance(part, XmlPart)]


def unit(inside: str) -> XmlPart:
    """Return a unit with this markup inside."""
    return pieces(f"<r><u>{inside}</u></r>".encode())[0]
