"""XML files as units: elements with their place in the bytes of the file, streamed.

The elements that a format asks for come as pieces, a small tree each, so that the format can splice new text into their
bytes. Everything between them comes as bytes. Files are not trusted: entities are refused, no DTD is loaded, and the
depth, the size and the number of elements of a piece are bounded. Elements are known by their name without namespace.
Knows neither XLIFF nor TMX.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import BinaryIO
from xml.parsers import expat

from lacuna.documents.base import LARGEST_PART
from lacuna.errors import DocumentError

CHUNK = 65_536
DEEPEST = 1_000
# A tree takes far more memory than its bytes, so the bound on bytes is not enough.
MOST_ELEMENTS = 100_000
# Bytes; not to read the whole unit again for each node.
_LONGEST_INDENT = 512

_UTF_16 = {b"\xff\xfe": "utf-16-le", b"<\0": "utf-16-le", b"\xfe\xff": "utf-16-be", b"\0<": "utf-16-be"}
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
    :param start: Where its start tag starts, in bytes from the start of the piece.
    :param parent: The element around it, also outside the piece.
    :param content: Where its content starts.
    :param content_end: Where its content ends.
    :param end: Where its end tag ends; the same as ``content_end`` for ``<x/>``.
    :param items: Text and nodes inside it, in order; only inside a unit.
    """

    tag: str
    attributes: dict[str, str]
    line: int
    start: int
    parent: Node | None
    content: int = 0
    content_end: int = 0
    end: int = 0
    items: list[Node | str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name without prefix."""
        return self.tag.rpartition(":")[2]

    def sibling_tag(self, name: str) -> str:
        """Return a name with the prefix of this element."""
        prefix, colon, _ = self.tag.rpartition(":")
        return f"{prefix}{colon}{name}"

    def children(self, *names: str) -> list[Node]:
        """Return the elements directly inside that have one of these names and the prefix of this element."""
        tags = {self.sibling_tag(name) for name in names}
        return [item for item in self.items if isinstance(item, Node) and item.tag in tags]

    def child(self, name: str) -> Node | None:
        """Return the first of these children, if there is one."""
        return next(iter(self.children(name)), None)

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
        start = max(node.parent.content, node.start - _LONGEST_INDENT)
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


def cut(
    file: BinaryIO, name: str, root: str, units: Set[str], tags: Set[str] = frozenset()
) -> Iterator[bytes | XmlPart]:
    """Cut an XML file into bytes and pieces, in order; the concatenation of all bytes is the file.

    :param name: The name of the file, for errors.
    :param root: The name of the root element.
    :param units: Names of the elements that become pieces; one inside another is part of the outer.
    :param tags: Names of the elements outside of units of which the start tag becomes a piece.
    :raises DocumentError: The file is malformed, too large, or has entities.
    """
    cutter = _Cutter(name, root, units, tags)
    while chunk := file.read(CHUNK):
        yield from cutter.feed(chunk)
    yield from cutter.feed(b"", last=True)


class _Cutter:
    """A parser that remembers where elements start and end.

    Expat tells where an event starts but not where it ends, which is where the next event starts.
    """

    def __init__(self, file: str, root: str, units: Set[str], tags: Set[str]) -> None:
        self._file, self._root, self._units, self._tags = file, root, units, tags
        self._head = b""
        self._declared: str | None = None
        self._buffer = bytearray()
        self._offset = 0  # of the buffer in the file
        self._position = 0  # of the last event in the file
        self._base = 0  # where the last element outside of units, or the unit, starts in the file
        self._unit: Node | None = None
        self._node: Node | None = None  # the innermost element
        self._depth = self._elements = 0
        self._text: list[str] = []
        self._opened: Node | None = None  # its start tag has started, and its end is not known yet
        self._closed: Node | None = None  # the same for its end tag
        self._finished: list[tuple[int, int, Node]] = []
        self._parser = expat.ParserCreate()
        self._parser.specified_attributes = True
        self._parser.XmlDeclHandler = self._declaration
        self._parser.EntityDeclHandler = self._refuse_entity
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.CommentHandler = lambda _: self._aside()
        self._parser.ProcessingInstructionHandler = lambda _, __: self._aside()
        self._parser.DefaultHandler = self._other

    def feed(self, chunk: bytes, last: bool = False) -> Iterator[bytes | XmlPart]:
        """Parse more bytes, and yield what is complete."""
        self._buffer += chunk
        self._head = (self._head + chunk[:2])[:2]
        try:
            self._parser.Parse(chunk, last)
        except expat.ExpatError as error:
            raise self._malformed(error) from error
        except DocumentError:
            raise
        except (LookupError, ValueError) as error:  # what the codecs of Python raise for an encoding
            message = f"the encoding {self._declared} is not supported ({error}); convert the file to UTF-8"
            raise self._error(message) from error
        if last:
            self._mark(self._offset + len(self._buffer))
        yield from self._complete()

    def _complete(self) -> Iterator[bytes | XmlPart]:
        for start, end, node in self._finished:
            yield from self._take(start)
            yield from (XmlPart(raw, node, self._encoding, self._file) for raw in self._take(end))
        self._finished.clear()
        # A tag that has not ended may yet be the start of a unit.
        yield from self._take(self._position if self._unit is None else self._base)
        if len(self._buffer) > LARGEST_PART:
            what = "the text, tag or comment" if self._unit is None else f"<{self._unit.tag}>"
            raise self._error(f"{what} has more than {LARGEST_PART:,} bytes; split it", self._unit)

    def _take(self, end: int) -> Iterator[bytes]:
        size = end - self._offset
        if size > 0:
            yield bytes(self._buffer[:size])
            del self._buffer[:size]
            self._offset = end

    @property
    def _encoding(self) -> str:
        return _UTF_16.get(self._head) or codecs.lookup(self._declared or "utf-8").name

    # --- events of the parser ----------------------------------------------------------------------------------------

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
        if self._text and self._node is not None:
            self._node.items.append("".join(self._text))
            self._text = []
        return position

    def _new(self, tag: str, attributes: dict[str, str], position: int) -> Node:
        node = Node(tag, attributes, self._parser.CurrentLineNumber, position - self._base, self._node)
        if self._unit is not None and self._node is not None:
            self._node.items.append(node)
            self._elements += 1
            if self._elements > MOST_ELEMENTS:
                raise self._error(f"<{self._unit.tag}> has more than {MOST_ELEMENTS:,} elements; split it", self._unit)
        return node

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        position = self._markup()
        if self._unit is None:
            self._base = position
        self._opened = node = self._new(tag, attributes, position)
        if self._node is None and node.name != self._root:
            raise self._error(
                f"not {self._root.upper()}, the root element is <{tag}> instead of <{self._root}>; "
                "check the suffix of the file"
            )
        if self._unit is None and node.name in self._units:
            self._unit, self._elements = node, 0
        self._node = node
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._error(f"elements are nested deeper than {DEEPEST:,} levels; check how the file was made")

    def _end(self, _: str) -> None:
        position = self._markup()
        self._closed = node = self._node
        if node is not None:
            node.content_end = position - self._base
            self._node = node.parent
        self._depth -= 1

    def _characters(self, text: str) -> None:
        self._mark(self._parser.CurrentByteIndex)
        if self._unit is not None:
            self._text.append(text)

    def _aside(self) -> None:
        """Take a comment or a processing instruction."""
        position = self._markup()
        if self._unit is not None:
            self._closed = self._new("", {}, position)

    def _other(self, raw: str) -> None:
        self._mark(self._parser.CurrentByteIndex)
        if self._unit is not None and raw.startswith("&"):
            raise self._error(f"the text uses the entity {raw}, and entities are not expanded; write the characters")

    def _declaration(self, _: str, encoding: str | None, __: int) -> None:
        self._mark(self._parser.CurrentByteIndex)
        self._declared = encoding

    def _refuse_entity(self, name: str, *_: object) -> None:
        raise self._error(f"the DOCTYPE declares the entity {name}, which is not safe; remove the declaration")

    # --- errors ------------------------------------------------------------------------------------------------------

    def _error(self, message: str, node: Node | None = None) -> DocumentError:
        line = self._parser.CurrentLineNumber if node is None else node.line
        return DocumentError(f"{self._file}:{line}: {message}")

    def _malformed(self, error: expat.ExpatError) -> DocumentError:
        reason = expat.errors.messages.get(error.code, str(error))
        if reason == expat.errors.XML_ERROR_INVALID_TOKEN:
            at = self._parser.ErrorByteIndex - self._offset
            reason += _undecodable(bytes(self._buffer[at : at + 4]), self._encoding)
        where = f"{self._file}:{self._parser.ErrorLineNumber}"
        return DocumentError(f"{where}: malformed XML ({reason}); check the file with: xmllint --noout")


def _undecodable(raw: bytes, encoding: str) -> str:
    """Return an addition to an error if its place cannot be decoded."""
    try:
        codecs.getincrementaldecoder(encoding)().decode(raw)
    except UnicodeDecodeError as error:
        return f": the byte 0x{raw[error.start]:02x} is not {encoding.upper()}" if not error.start else ""
    return ""
