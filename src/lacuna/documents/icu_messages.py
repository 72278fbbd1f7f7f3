"""ICU MessageFormat: the texts of a message, and the message with their translations.

A message with plurals or choices, such as ``{n, plural, one {# file} other {# files}}``, is cut into the texts of its
branches, so that each branch gets a translation of its own. Any other message is one text. References to other messages
are inline codes. A branch for another plural category is not added: a language with more categories than the source
needs a person, or PO.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from lacuna.corpora.placeholders import find_placeholders
from lacuna.documents.base import InlineCodes

_DEEPEST = 10  # people write two or three
# $USER$ of Chrome, $t(key) of i18next, @:key and @.lower:key of vue-i18n; other placeholders are known to all formats.
_REFERENCE = re.compile(r"\$[\w@]+\$|\$t\([^()]{0,200}\)|@(?:\.\w+)?:(?:[\w.]*\w|\([\w.]+\))")
_COMPLEX = re.compile(r"\{\s*[^\s{},']+\s*,\s*(?P<type>plural|selectordinal|select)\s*,(?:\s*offset:\d+(?=\s))?")
_SELECTOR = re.compile(r"\s*(?:=\d+|[^\s{}=,'#]+)\s*\{")
_CLOSING = re.compile(r"\s*\}")
_PIECE = re.compile(
    r"""
      (?P<text>[^{}'#]++|'(?![{}#']))
    | (?P<apostrophe>'')
    | (?P<quoted>'(?:[^']++|'')++')
    | (?P<simple>\{[^{}']*+\})      # an argument without branches
    | (?P<number>\#)
    """,
    re.VERBOSE,
)
_SIMPLE = re.compile(r"\{[^{}']*\}")
_SLOT = re.compile("\0([0-9]+)\0")


@dataclass(slots=True)
class _Branch:
    """A text within a message; the first is the message itself.

    :param in_plural: Whether ``#`` stands for the number.
    """

    in_plural: bool = False
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def is_text(self) -> bool:
        return any(letter.isalpha() for letter in _SIMPLE.sub("", self.text))


@dataclass(slots=True)
class IcuMessage:
    """A message as branches and the arguments that hold them; a message that is not ICU is one branch.

    :param quote: Returns a text with special characters quoted, given the text and ``in_plural``.
    :param branches: All texts. An argument with branches is an inline code in the text around it, and the markup of
        that code is a slot: the number of the argument.
    :param arguments: For each slot the markup of the argument, with the numbers of its branches in their places. An
        argument inside another has a higher number.
    """

    quote: Callable[[str, bool], str]
    codes: InlineCodes = field(default_factory=InlineCodes)
    branches: list[_Branch] = field(default_factory=lambda: [_Branch()])
    arguments: list[list[str | int]] = field(default_factory=list)

    @property
    def texts(self) -> tuple[str, ...]:
        """What to translate: the branches that have words."""
        return tuple(branch.text for branch in self.branches if branch.is_text)

    def fill(self, translations: Sequence[str]) -> str:
        """Return the message with a translation for each of :attr:`texts`."""
        remaining = iter(translations)
        written = [
            self._restore(next(remaining) if branch.is_text else branch.text, branch.in_plural)
            for branch in self.branches
        ]
        filled: dict[str, str] = {}
        for number in reversed(range(len(self.arguments))):
            pieces = (piece if isinstance(piece, str) else written[piece] for piece in self.arguments[number])
            filled[str(number)] = _SLOT.sub(lambda slot: filled[slot[1]], "".join(pieces))
        return _SLOT.sub(lambda slot: filled[slot[1]], written[0]) if filled else written[0]

    def _restore(self, text: str, in_plural: bool) -> str:
        return self.codes.restore(text, lambda plain: self.quote(plain, in_plural))


def parse_message(value: str) -> IcuMessage:
    """Parse a message as ICU MessageFormat if it has plurals or choices and is well-formed, or else as it stands.

    :raises DocumentError: It has too many inline codes.
    """
    if "\0" not in value and _COMPLEX.search(value):
        parser = _IcuParser(value)
        if parser.run():
            return parser.message
    plain = IcuMessage(lambda text, _: text)
    plain.branches[0].pieces.append(_coded(value, plain.codes))
    return plain


def _coded(text: str, codes: InlineCodes) -> str:
    parts, last = [], 0
    for match in _REFERENCE.finditer(text):
        parts += [codes.protect(text[last : match.start()]), codes.alone(match[0])]
        last = match.end()
    return "".join([*parts, codes.protect(text[last:])])


class _IcuParser:
    """Parses one message of ICU MessageFormat.

    :param message: The result; complete if :meth:`run` returned True.
    """

    def __init__(self, value: str) -> None:
        self.message = IcuMessage(partial(_quote, doubled="''" in value))
        self._value = value
        self._branches = [self.message.branches[0]]
        # The open arguments, and whether # stands for a number in their branches. Branches and arguments alternate:
        # as many arguments as branches are open between the branches of an argument, and one less inside a branch.
        self._arguments: list[tuple[list[str | int], bool]] = []

    def run(self) -> bool:
        """Tell whether the value is well-formed."""
        position = 0
        while position < len(self._value):
            inside = len(self._arguments) < len(self._branches)
            match = self._in_branch(position) if inside else self._in_argument(position)
            if match is None or len(self._branches) > _DEEPEST:
                return False
            position = match.end()
        return not self._arguments

    def _in_argument(self, position: int) -> re.Match[str] | None:
        pieces, is_plural = self._arguments[-1]
        if selector := _SELECTOR.match(self._value, position):
            branch = _Branch(is_plural)
            pieces += [selector[0], len(self.message.branches)]
            self.message.branches.append(branch)
            self._branches.append(branch)
            return selector
        closing = _CLOSING.match(self._value, position) if len(pieces) > 1 else None
        if closing:
            pieces.append(closing[0])
            self._arguments.pop()
        return closing

    def _in_branch(self, position: int) -> re.Match[str] | None:
        branch, codes = self._branches[-1], self.message.codes
        if argument := _COMPLEX.match(self._value, position):
            branch.pieces.append(codes.alone(f"\0{len(self.message.arguments)}\0"))
            self._arguments.append(([argument[0]], argument["type"] != "select"))
            self.message.arguments.append(self._arguments[-1][0])
            return argument
        if piece := _PIECE.match(self._value, position):
            branch.pieces.append(self._piece(piece))
            return piece
        closing = _CLOSING.match(self._value, position) if self._arguments else None
        if closing:
            self._arguments[-1][0].append("}")
            self._branches.pop()
        return closing

    def _piece(self, piece: re.Match[str]) -> str:
        codes = self.message.codes
        match piece.lastgroup:
            case "text":
                return _coded(piece[0], codes)
            case "apostrophe":
                return "'"
            case "number" if not self._branches[-1].in_plural:
                return "#"
            case "simple" if find_placeholders(piece[0]) == [piece[0]]:
                return piece[0]
        return codes.alone(piece[0])


def _quote(text: str, in_plural: bool, doubled: bool) -> str:
    """Quote what is special in ICU MessageFormat, except for arguments.

    :param doubled: Whether each apostrophe is written twice, as in the source; otherwise only where it must be.
    """
    special = "{}#" if in_plural else "{}"

    def replace(match: re.Match[str]) -> str:
        if match[0] == "'":
            following = text[match.end() : match.end() + 1]
            return "''" if doubled or not following or following in "{}#'" else "'"
        return match[0] if _SIMPLE.fullmatch(match[0]) else "'" + match[0].replace("'", "''") + "'"

    return re.sub(rf"{_SIMPLE.pattern}|[{special}](?:(?!{_SIMPLE.pattern})[{special}'])*|'", replace, text)
