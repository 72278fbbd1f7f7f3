r"""JSON message catalogs: i18next, vue-i18n, Chrome's ``messages.json``, ARB, Jed, or plain nested keys and texts.

String values are translated, and keys never. A scanner finds the string literals without building the document, so
depth costs no recursion and everything else stays as it is. vue-i18n's ``car | cars`` and texts under plural suffixes
of i18next keys are translated as they stand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO

from lacuna.documents.base import DocumentSegment, Filled
from lacuna.documents.icu_messages import IcuMessage, parse_message
from lacuna.errors import DocumentError
from lacuna.formats.input_files import MAX_PART_BYTES
from lacuna.records import Languages

_DEEPEST = 100_000
_PLACE_KEYS, _PLACE_LETTERS = 16, 80  # what a place shows of a path; a file can have a path of any length

_TOKEN = re.compile(
    r"""[ \t\r\n]*+(?:
      (?P<string>"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\x00-\x1f]*+)*+")
    | (?P<scalar>(?:-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null)(?![\w.+-]))
    | (?P<mark>[{}\[\],:])
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
# What may come next: the marks, " for a string, 0 for a number or constant, $ for the end of the file.
_VALUE, _FIRST_ITEM, _FIRST_KEY, _KEY, _COLON, _NEXT_MEMBER, _NEXT_ITEM, _END = (
    ('{["0', "a value"),
    ('{["0]', "a value or ]"),
    ('"}', "a key in double quotes or }"),
    ('"', "a key in double quotes"),
    (":", "a colon"),
    (",}", "a comma or }"),
    (",]", "a comma or ]"),
    ("$", "the end of the file"),
)

# The end is looked for first: with the end as the last part, each name within a long text would be tried up to there.
_URL_OR_NAME = re.compile(r"[a-z][a-z0-9+.-]*+://\S*+\Z|(?=[!-~]++\Z)[!-~]*?[A-Za-z0-9][./_:]++[A-Za-z0-9]")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(slots=True)
class _Container:
    """An object or array that is being read.

    :param key: The key or index of the value being read.
    :param keys: The keys so far, of an object.
    """

    is_object: bool
    key: str = ""
    keys: set[str] = field(default_factory=set)


_Path = Sequence[_Container]


class JsonFormat:
    """Message catalogs in JSON (``.json``) and ARB (``.arb``)."""

    name = "JSON messages"
    suffixes = (".json", ".arb")

    def parts(self, file: BinaryIO, name: str, languages: Languages) -> Iterator[bytes | DocumentSegment]:
        """Yield a segment for each text. The whole file is checked first, because its dialect depends on all keys."""
        text, encoding = _read(file, name)
        is_message = _find_dialect(text, name)
        is_ascii = text.isascii() and "\\u" in text
        done = 0
        for start, end, path in _strings(text, name):
            literal = text[start:end]
            if not is_message(path) or not _is_text(value := json.loads(literal)):
                continue
            try:
                message = parse_message(value)
            except DocumentError as error:
                raise DocumentError(f"{name}:{_line(text, start)}: {error}") from error
            if not message.texts:
                continue
            yield text[done:start].encode(encoding)
            write = partial(_write, message, value, literal, is_ascii, encoding)
            yield DocumentSegment(literal.encode(encoding), message.texts, write, place=_place(path))
            done = end
        yield text[done:].encode(encoding)


def _write(
    message: IcuMessage, value: str, literal: str, is_ascii: bool, encoding: str, filled: Sequence[Filled]
) -> bytes:
    translated = message.fill([translation.text for translation in filled])
    if translated == value:
        return literal.encode(encoding)
    written = json.dumps(translated, ensure_ascii=is_ascii)
    return (written.replace("/", "\\/") if "\\/" in literal else written).encode(encoding)


# --- JSON ------------------------------------------------------------------------------------------------------------


def _read(file: BinaryIO, name: str) -> tuple[str, str]:
    """Return the text, with its byte order mark, and the encoding."""
    content = file.read(MAX_PART_BYTES + 1)
    if len(content) > MAX_PART_BYTES:
        raise DocumentError(
            f"{name}: larger than {MAX_PART_BYTES:,} bytes, the largest JSON allowed; split the catalog"
        )
    encoding = json.detect_encoding(content).removesuffix("-sig")
    if encoding in ("utf-16", "utf-32"):  # these would drop the mark
        encoding += "-le" if content.startswith(b"\xff\xfe") else "-be"
    try:
        return content.decode(encoding), encoding
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DocumentError(
            f"{name}:{line}: not {encoding.upper()} (byte 0x{content[error.start]:02x}); "
            "convert the file, for example with: iconv -t UTF-8"
        ) from error


def _strings(text: str, name: str) -> Iterator[tuple[int, int, _Path]]:
    """Yield start, end and path of each string value; the path changes as the scan goes on.

    :raises DocumentError: The text is not JSON, or an object has a key twice.
    """
    path: list[_Container] = []
    expected, position = _VALUE, int(text.startswith("\ufeff"))
    while expected is not _END or position < len(text):
        kind, start, position = _next_token(text, position, expected, name)
        if kind in "{[":
            path.append(_Container(kind == "{", "" if kind == "{" else "0"))
            if len(path) > _DEEPEST:
                raise _malformed(text, start, name, f"more than {_DEEPEST:,} levels")
            expected = _FIRST_KEY if kind == "{" else _FIRST_ITEM
        elif kind == ",":
            expected = _next_value(path[-1])
        elif kind == ":":
            expected = _VALUE
        elif kind == '"' and expected in (_KEY, _FIRST_KEY):
            _enter(path[-1], text, start, position, name)
            expected = _COLON
        else:
            if kind == '"':
                yield start, position, path
            elif kind in "}]":
                path.pop()
            expected = (_NEXT_MEMBER if path[-1].is_object else _NEXT_ITEM) if path else _END


def _next_token(text: str, position: int, expected: tuple[str, str], name: str) -> tuple[str, int, int]:
    """Return the kind of the next token, its start and its end."""
    match = _TOKEN.match(text, position)
    group = match.lastgroup if match else None
    if match and group:
        start = match.start(group)
        kind = {"string": '"', "scalar": "0", "end": "$"}.get(group) or match[group]
        if kind in expected[0]:
            return kind, start, match.end()
    else:
        start = position + len(text[position:]) - len(text[position:].lstrip(" \t\r\n"))
    got = repr(text[start : start + 20]) if start < len(text) else "the end of the file"
    raise _malformed(text, start, name, f"expected {expected[1]}, got {got}")


def _next_value(container: _Container) -> tuple[str, str]:
    if container.is_object:
        return _KEY
    container.key = str(int(container.key) + 1)
    return _VALUE


def _enter(container: _Container, text: str, start: int, end: int, name: str) -> None:
    container.key = json.loads(text[start:end])
    if container.key in container.keys:
        raise _malformed(text, start, name, f"the key {container.key[:40]!r} twice in an object")
    container.keys.add(container.key)


def _malformed(text: str, position: int, name: str, what: str) -> DocumentError:
    return DocumentError(
        f"{name}:{_line(text, position)}: malformed JSON ({what}); check the file with: python -m json.tool"
    )


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _place(path: _Path) -> str:
    keys = ".".join(container.key[:_PLACE_LETTERS] for container in path[-_PLACE_KEYS:])
    return _SURROGATE.sub("\ufffd", keys)


# --- what is a message -----------------------------------------------------------------------------------------------


def _find_dialect(text: str, name: str) -> Callable[[_Path], bool]:
    """Check the whole file and return the rule that tells which strings are messages."""
    root = _Container(is_object=False)
    messages = 0
    for _, _, path in _strings(text, name):
        root = path[0] if path else root
        messages += len(path) == 2 and _is_chrome(path)
    if root.keys and messages == len(root.keys):
        return _is_chrome
    if "@@locale" in root.keys or name.lower().endswith(".arb"):
        return _is_arb
    return _is_jed if "locale_data" in root.keys else _is_any


def _is_chrome(path: _Path) -> bool:
    """``{"key": {"message": "text", "description": "for the translator"}}``."""
    return len(path) == 2 and path[0].is_object and path[1].is_object and path[1].key == "message"


def _is_arb(path: _Path) -> bool:
    """``{"@@locale": "en", "key": "text", "@key": {"description": "for the translator"}}``."""
    return bool(path) and not path[0].key.startswith("@")


def _is_jed(path: _Path) -> bool:
    """``{"domain": "d", "locale_data": {"d": {"": {"lang": "de"}, "key": ["text", "plural"]}}}``."""
    return len(path) == 4 and path[0].key == "locale_data" and path[2].key != ""


def _is_any(path: _Path) -> bool:
    return not (len(path) == 1 and path[0].is_object and path[0].key == "$schema")


def _is_text(value: str) -> bool:
    """Tell whether a string is for people: it has a letter, and is neither a URL nor a name such as ``app.title``."""
    has_letter = any(letter.isalpha() for letter in value)
    return has_letter and not _URL_OR_NAME.match(value) and not _SURROGATE.search(value)
