"""XML files as units, streamed: the elements that a format asks for, a small tree each.

:func:`read_units` is for corpora and yields the trees alone, :func:`cut` for documents, whose text is spliced into the
bytes of units: noting where each tag starts and ends takes as long as all the rest, so only the latter does it.

Files are not trusted: entities are refused, no DTD is loaded, and the depth, the size and the number of elements of a
unit are bounded. Elements are known by their name without namespace. Knows neither XLIFF nor TMX.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from itertools import chain
from typing import BinaryIO
from xml.parsers import expat

from lacuna.errors import FormatError
from lacuna.formats.input_files import MAX_PART_BYTES

MAX_DEPTH = 1_000
# A tree takes far more memory than its bytes, so the bound on bytes is not enough.
MAX_ELEMENTS = 100_000
_CHUNK_BYTES = 65_536
_HEAD_BYTES = 256  # where the encoding is named
# Bytes; not to read the whole unit again for each node.
_MAX_INDENT = 512

# What a file starts with says more than its declaration, which some tools copy from another encoding.
_SIGNATURES = {
    b"\xef\xbb\xbf": "utf-8",
    b"\xff\xfe": "utf-16-le",
    b"<\0": "utf-16-le",
    b"\xfe\xff": "utf-16-be",
    b"\0<": "utf-16-be",
}
_EXPAT_ENCODINGS = frozenset({"utf-8", "utf-16", "iso8859-1", "ascii"})
_DECLARED = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]+)""")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_ATTRIBUTE = re.compile(r"""\s+([^\s=]+)\s*=\s*("[^"]*"|'[^']*')""")
_TAG_END = re.compile(r"\s*/?>\Z")


@dataclass(slots=True, eq=False)
class Node:
    """An element, or a comment or processing instruction, which have no tag.

    :param tag: Its name as written, with prefix.
    :param attributes: By their names as written.
    :param line: The line on which it starts.
    :param parent: The element around it; inside a unit only of an :class:`XmlPart`, as are the places below.
    :param items: Text and nodes inside it, in order; only inside a unit.
    :param start: Where its start tag starts, in bytes from the start of the unit.
    :param content: Where its content starts.
    :param content_end: Where its content ends.
    :param end: Where its end tag ends; the same as ``content_end`` for ``<x/>``.
    """

    tag: str
    attributes: dict[str, str]
    line: int
    parent: Node | None = None
    items: list[Node | str] = field(default_factory=list)
    start: int = field(init=False)
    content: int = field(init=False)
    content_end: int = field(init=False)
    end: int = field(init=False)

    @property
    def name(self) -> str:
        """Its name without prefix."""
        return self.tag.rpartition(":")[2]

    def sibling_tag(self, name: str) -> str:
        """Return a name with the prefix of this element."""
        return f"{self.tag.rpartition(':')[0]}:{name}" if ":" in self.tag else name

    def children(self, *names: str) -> list[Node]:
        """Return the elements directly inside that have one of these names and the prefix of this element."""
        tags = [self.sibling_tag(name) for name in names]
        return [item for item in self.items if item.__class__ is Node and item.tag in tags]

    def child(self, name: str) -> Node | None:
        """Return the first of these children, if there is one."""
        tag = self.sibling_tag(name)
        for item in self.items:
            if item.__class__ is Node and item.tag == tag:
                return item
        return None

    def inherited(self, attribute: str) -> str | None:
        """Return an attribute of this element, or of the nearest element around it that has one."""
        node: Node | None = self
        while node is not None:
            if attribute in node.attributes:
                return node.attributes[attribute]
            node = node.parent
        return None


# Where something starts and ends in a piece, and the text to write instead.
Edit = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class XmlPart:
    """An element that a format asked for: all of a unit, or the start tag alone.

    :param raw: Its bytes.
    :param node: The element.
    :param encoding: The encoding of the file.
    :param file: The name of the file, for errors.
    """

    raw: bytes
    node: Node
    encoding: str
    file: str

    @property
    def where(self) -> str:
        """File and line, for errors."""
        return f"{self.file}:{self.node.line}"

    def read(self, start: int, end: int) -> str:
        """Return the markup between two places."""
        return self.raw[start:end].decode(self.encoding)

    def inside(self, node: Node) -> str:
        """Return the markup inside an element."""
        return self.read(node.content, node.content_end)

    def start_tag(self, node: Node, values: Mapping[str, str | None]) -> str:
        """Return a start tag, never as ``<x/>``, with attributes set, or removed where the value is None."""
        tag = with_attributes(self.read(node.start, node.content), values)
        return _TAG_END.sub(">", tag)

    def indent(self, node: Node) -> str:
        """Return the line break and the indentation before a node, or nothing if it follows something else."""
        if node.parent is None or node is self.node:
            return ""
        start = max(node.parent.content, node.start - _MAX_INDENT)
        before = self.raw[start : node.start].decode(self.encoding, "ignore")  # it may start inside a character
        line = before.rstrip(" \t")
        ending = next((ending for ending in ("\r\n", "\n", "\r") if line.endswith(ending)), "")
        return ending + before[len(line) :] if ending else ""

    def removal(self, node: Node) -> Edit:
        """Return the edit that removes a node and its indentation."""
        return node.start - len(self.indent(node).encode(self.encoding)), node.end, ""

    def splice(self, edits: Iterable[Edit]) -> bytes:
        """Return the bytes after edits, which do not overlap; what the encoding lacks becomes references.

        Of several that insert at the same place, the first comes first.
        """
        parts, last = [], 0
        for start, end, text in sorted(edits, key=lambda edit: edit[:2]):
            parts += [self.raw[last:start], text.encode(self.encoding, "xmlcharrefreplace")]
            last = end
        return b"".join([*parts, self.raw[last:]])


def escape(text: str) -> str:
    """Write text as XML; characters that XML forbids, such as control characters, are dropped."""
    return _FORBIDDEN.sub("", text).translate(_ESCAPES)


def with_attributes(tag: str, values: Mapping[str, str | None]) -> str:
    """Return a well-formed start tag with attributes set, or removed where the value is None; the rest stays."""
    written = {
        name: "" if value is None else ' {}="{}"'.format(name, escape(value).replace('"', "&quot;"))
        for name, value in values.items()
    }
    changed = _ATTRIBUTE.sub(lambda match: written.pop(match[1], match[0]), tag)
    end = _TAG_END.search(changed)
    place = end.start() if end else len(changed)
    return changed[:place] + "".join(written.values()) + changed[place:]


def read_units(file: BinaryIO, name: str, root: str, units: Set[str], tags: Set[str] = frozenset()) -> Iterator[Node]:
    """Yield the units of an XML file, without comments and processing instructions, and the tags that are asked for.

    The parameters and errors are those of :func:`cut`. An element of ``tags`` comes before what is inside it.
    """
    chunks = _chunks(file)
    head = next(chunks)
    signature = _signature(head)
    chunks = chain([head], chunks)
    if signature is None and (codec := _other_codec(head)):
        chunks, signature = _recode(chunks, codec, name), "utf-8"
    reader = _Reader(name, root, units, tags, signature)
    for chunk in chunks:
        yield from reader.feed(chunk)
    yield from reader.feed(b"", last=True)


def cut(
    file: BinaryIO, name: str, root: str, units: Set[str], tags: Set[str] = frozenset()
) -> Iterator[bytes | XmlPart]:
    """Cut an XML file into bytes and pieces, in order; the concatenation of all bytes is the file.

    :param name: The name of the file, for errors.
    :param root: The name of the root element.
    :param units: Names of the elements that become pieces; one inside another is part of the outer.
    :param tags: Names of the elements outside of units of which the start tag becomes a piece.
    :raises FormatError: The file is malformed, too large, or has entities.
    """
    chunks = _chunks(file)
    head = next(chunks)
    cutter = _Cutter(name, root, units, tags, _signature(head))
    for chunk in chain([head], chunks):
        yield from cutter.feed(chunk)
    yield from cutter.feed(b"", last=True)


# --- encodings -------------------------------------------------------------------------------------------------------


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    """Yield the bytes of a file; what names its encoding is in the first chunk."""
    head = b""
    while len(head) < _HEAD_BYTES and (chunk := file.read(_CHUNK_BYTES)):
        head += chunk
    yield head
    while chunk := file.read(_CHUNK_BYTES):
        yield chunk


def _signature(head: bytes) -> str | None:
    return next((encoding for start, encoding in _SIGNATURES.items() if head.startswith(start)), None)


def _other_codec(head: bytes) -> codecs.CodecInfo | None:
    """Return the codec that a file declares if expat does not know it, such as GBK; else None."""
    declared = _DECLARED.match(head)
    name = declared[1].decode() if declared else "utf-8"
    try:
        is_text = b"<?xml".decode(name) == "<?xml"
    except (LookupError, ValueError):
        is_text = False
    codec = codecs.lookup(name) if is_text else None
    return codec if codec is not None and codec.name not in _EXPAT_ENCODINGS else None


def _recode(chunks: Iterable[bytes], codec: codecs.CodecInfo, name: str) -> Iterator[bytes]:
    decoder = codec.incrementaldecoder()
    lines = 1
    for chunk in chain(chunks, [b""]):
        try:
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            lines += error.object[: error.start].count(b"\n")
            raise FormatError(
                f"{name}:{lines}: not {codec.name.upper()} (byte 0x{error.object[error.start]:02x}); "
                "convert the file, for example with: iconv -t UTF-8"
            ) from error
        lines += text.count("\n")
        yield text.encode()


# --- parsers ---------------------------------------------------------------------------------------------------------


class _Parser:
    """What reading and cutting share: the tree, the bounds, what is refused, and errors."""

    def __init__(self, file: str, root: str, units: Set[str], tags: Set[str], signature: str | None) -> None:
        self._file, self._root, self._units, self._tags = file, root, units, tags
        self._signature = signature
        self._declared: str | None = None
        self._fed = 0  # bytes
        self._unit: Node | None = None
        self._unit_start = 0  # in the file
        self._open: list[Node] = []  # elements, from the root to the innermost
        self._elements = 0
        self._parser = expat.ParserCreate("utf-16" if signature and "16" in signature else signature)
        self._parser.specified_attributes = True
        self._parser.XmlDeclHandler = self._declaration
        self._parser.EntityDeclHandler = self._refuse_entity
        self._parser.DefaultHandler = self._other

    @property
    def _encoding(self) -> str:
        return self._signature or codecs.lookup(self._declared or "utf-8").name

    def _parse(self, chunk: bytes, last: bool) -> None:
        self._fed += len(chunk)
        try:
            self._parser.Parse(chunk, last)
        except expat.ExpatError as error:
            raise self._malformed(error, chunk) from error
        except FormatError:
            raise
        except (LookupError, ValueError) as error:  # what the codecs of Python raise for an encoding
            message = f"the encoding {self._declared} is not supported ({error}); convert the file to UTF-8"
            raise self._error(message) from error
        start = self._parser.CurrentByteIndex if self._unit is None else self._unit_start
        if self._fed - start > MAX_PART_BYTES:
            what = "the text, tag or comment" if self._unit is None else f"<{self._unit.tag}>"
            raise self._error(f"{what} has more than {MAX_PART_BYTES:,} bytes; split it", self._unit)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        node = Node(tag, attributes, self._parser.CurrentLineNumber)
        if self._unit is not None:
            self._open[-1].items.append(node)
            self._elements += 1
        else:
            self._start_outside(node)
        self._open.append(node)
        if self._elements > MAX_ELEMENTS or len(self._open) > MAX_DEPTH:
            raise self._too_many_elements()

    def _start_outside(self, node: Node) -> None:
        """Take an element outside of units, which may be one."""
        if self._open:
            node.parent = self._open[-1]
        elif node.name != self._root:
            raise self._error(
                f"not {self._root.upper()}, the root element is <{node.tag}> instead of <{self._root}>; "
                "check the suffix of the file"
            )
        if node.name in self._units:
            self._unit, self._unit_start, self._elements = node, self._parser.CurrentByteIndex, 0

    # --- events of the parser ----------------------------------------------------------------------------------------

    def _other(self, raw: str) -> None:
        if self._unit is not None and raw.startswith("&"):
            raise self._error(f"the text uses the entity {raw}, and entities are not expanded; write the characters")

    def _declaration(self, _: str, encoding: str | None, __: int) -> None:
        self._declared = encoding

    def _refuse_entity(self, name: str, *_: object) -> None:
        raise self._error(f"the DOCTYPE declares the entity {name}, which is not safe; remove the declaration")

    # --- errors ------------------------------------------------------------------------------------------------------

    def _error(self, message: str, node: Node | None = None) -> FormatError:
        line = self._parser.CurrentLineNumber if node is None else node.line
        return FormatError(f"{self._file}:{line}: {message}")

    def _too_many_elements(self) -> FormatError:
        if self._unit is not None and self._elements > MAX_ELEMENTS:
            return self._error(f"<{self._unit.tag}> has more than {MAX_ELEMENTS:,} elements; split it", self._unit)
        return self._error(f"elements are nested deeper than {MAX_DEPTH:,} levels; check how the file was made")

    def _malformed(self, error: expat.ExpatError, chunk: bytes) -> FormatError:
        reason = expat.errors.messages.get(error.code, str(error))
        if reason == expat.errors.XML_ERROR_INVALID_TOKEN:
            at = self._parser.ErrorByteIndex - (self._fed - len(chunk))
            reason += _undecodable(chunk[max(at, 0) : max(at, 0) + 4], self._encoding)
        where = f"{self._file}:{self._parser.ErrorLineNumber}"
        return FormatError(f"{where}: malformed XML ({reason}); check the file with: xmllint --noout")


def _undecodable(raw: bytes, encoding: str) -> str:
    """Return an addition to an error if its place cannot be decoded."""
    try:
        codecs.getincrementaldecoder(encoding)().decode(raw)
    except UnicodeDecodeError as error:
        return f": the byte 0x{raw[error.start]:02x} is not {encoding.upper()}" if not error.start else ""
    return ""


class _Reader(_Parser):
    """A parser for the trees of units alone."""

    def __init__(self, file: str, root: str, units: Set[str], tags: Set[str], signature: str | None) -> None:
        super().__init__(file, root, units, tags, signature)
        self._finished: list[Node] = []
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters

    def feed(self, chunk: bytes, last: bool = False) -> list[Node]:
        """Parse more bytes, and return what is complete."""
        self._finished = []
        self._parse(chunk, last)
        return self._finished

    def _start_outside(self, node: Node) -> None:
        super()._start_outside(node)
        if self._unit is None and node.name in self._tags:
            self._finished.append(node)

    def _end(self, _: str) -> None:
        node = self._open.pop()
        if node is self._unit:
            self._finished.append(node)
            self._unit = None

    def _characters(self, text: str) -> None:
        if self._unit is not None:
            self._open[-1].items.append(text)


class _Cutter(_Parser):
    """A parser that remembers where elements start and end.

    Expat tells where an event starts but not where it ends, which is where the next event starts.
    """

    def __init__(self, file: str, root: str, units: Set[str], tags: Set[str], signature: str | None) -> None:
        super().__init__(file, root, units, tags, signature)
        self._buffer = bytearray()
        self._offset = 0  # of the buffer in the file
        self._position = 0  # of the last event in the file
        self._base = 0  # where the last element outside of units, or the unit, starts in the file
        self._text: list[str] = []
        self._opened: Node | None = None  # its start tag has started, and its end is not known yet
        self._closed: Node | None = None  # the same for its end tag
        self._finished: list[tuple[int, int, Node]] = []
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.CommentHandler = lambda _: self._aside()
        self._parser.ProcessingInstructionHandler = lambda _, __: self._aside()

    def feed(self, chunk: bytes, last: bool = False) -> Iterator[bytes | XmlPart]:
        """Parse more bytes, and yield what is complete."""
        self._buffer += chunk
        self._parse(chunk, last)
        if last:
            self._mark(self._offset + len(self._buffer))
        for start, end, node in self._finished:
            yield from self._take(start)
            yield from (XmlPart(raw, node, self._encoding, self._file) for raw in self._take(end))
        self._finished.clear()
        # A tag that has not ended may yet be the start of a unit.
        yield from self._take(self._position if self._unit is None else self._base)

    def _take(self, end: int) -> Iterator[bytes]:
        size = end - self._offset
        if size > 0:
            yield bytes(self._buffer[:size])
            del self._buffer[:size]
            self._offset = end

    def _mark(self, position: int) -> int:
        """Note where an event starts, which is where the tag before it ends."""
        opened, closed, self._opened, self._closed = self._opened, self._closed, None, None
        if opened is not None:
            opened.content = position - self._base
            if self._unit is None and opened.name in self._tags:
                self._finished.append((self._base, position, opened))
        if closed is not None:
            closed.end = position - self._base
            if closed is self._unit:
                self._finished.append((self._base, position, closed))
                self._unit = None
        self._position = position
        return position

    def _markup(self) -> int:
        """Note where markup starts, which ends the text before it."""
        position = self._mark(self._parser.CurrentByteIndex)
        if self._text:
            self._open[-1].items.append("".join(self._text))
            self._text = []
        return position

    # --- events of the parser ----------------------------------------------------------------------------------------

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        position = self._markup()
        if self._unit is None:
            self._base = position
        around = self._open[-1] if self._open else None
        super()._start(tag, attributes)
        self._opened = node = self._open[-1]
        node.start, node.parent = position - self._base, around

    def _end(self, _: str) -> None:
        position = self._markup()
        self._closed = node = self._open.pop()
        node.content_end = position - self._base

    def _characters(self, text: str) -> None:
        self._mark(self._parser.CurrentByteIndex)
        if self._unit is not None:
            self._text.append(text)

    def _aside(self) -> None:
        """Take a comment or a processing instruction."""
        position = self._markup()
        if self._unit is not None:
            super()._start("", {})
            self._closed = node = self._open.pop()
            node.start, node.parent = position - self._base, self._open[-1]

    def _other(self, raw: str) -> None:
        self._mark(self._parser.CurrentByteIndex)
        super()._other(raw)

    def _declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        self._mark(self._parser.CurrentByteIndex)
        super()._declaration(version, encoding, standalone)
