"""Word splitters: Moses for languages with spaces, jieba for Chinese, and how to undo both exactly.

A spacing rule guesses where spaces belong between words. Where it is wrong, a mark between two words says so. So
joining words is exact, while ordinary sentences have no marks at all. Text between two spaces is split on its own, with
as much context as the splitter uses, and cached. Knows nothing of subwords.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol

from lacuna.errors import ModelError, SettingError, needs_extra
from lacuna.models.directions import short_code

if TYPE_CHECKING:
    from sacremoses import MosesTokenizer

JOIN = "￭"  # nothing stands between its neighbors
SPACE = "␣"  # a space stands between its neighbors
HYPHEN = "@-@"  # how Moses writes the hyphen of "kNN-MT"; in the text it is a plain one

_CACHED = 2**17
_UNSPACED = {"ja", "th", "km", "lo", "my"}


class WordSplitter(Protocol):
    """Splits the text of one language into words."""

    def split(self, text: str) -> list[str]:
        """Split a text into words and marks."""

    def join(self, words: Sequence[str]) -> str:
        """Undo :meth:`split`, except for the kind and amount of white space; accepts any other list of words too."""


def splitter_name(language: str) -> str:
    """Return the word splitter of a language: ``jieba`` for Chinese, ``moses`` for languages with spaces."""
    short = short_code(language)
    if short in _UNSPACED:
        raise SettingError(
            f"tokenization: got bpe for {language}, which is written without spaces and has no word splitter here; "
            "allowed is sentencepiece"
        )
    return "jieba" if short == "zh" else "moses"


def make_splitter(language: str, dictionary: bytes | None) -> WordSplitter:
    """Return the word splitter of a language.

    :param dictionary: jieba's dictionary; required for Chinese.
    """
    if splitter_name(language) == "moses":
        return MosesSplitter(short_code(language) or language)
    if dictionary is None:
        raise ModelError("jieba.txt is missing, jieba's dictionary; copy the model again")
    return JiebaSplitter(dictionary)


def require_splitter(language: str) -> None:
    """Raise an error that names the extra if the splitter's package is not installed."""
    if splitter_name(language) == "moses":
        _load_moses("en")
    else:
        _load_jieba()


# --- spacing -------------------------------------------------------------------------------------------------------


class SpacingRule(Protocol):
    """Guesses the spaces of one text, from left to right."""

    def expects_space(self, token: str) -> bool:
        """Guess whether a space precedes ``token``, given the tokens so far."""

    def observe(self, token: str, spaced: bool) -> None:
        """Take in ``token`` and whether a space really preceded it."""


def add_marks(tokens: Iterable[tuple[str, bool]], rule: SpacingRule) -> list[str]:
    """Write tokens as words, with a mark before each token whose spacing differs from the rule.

    :param tokens: Each token, and whether a space precedes it.
    """
    words: list[str] = []
    for token, spaced in tokens:
        if words and rule.expects_space(token) != spaced:
            words.append(SPACE if spaced else JOIN)
        rule.observe(token, spaced)
        words.append(_escaped(token))
    return words


def drop_marks(words: Iterable[str], rule: SpacingRule) -> str:
    """Join words as the marks say, and elsewhere as the rule does."""
    parts: list[str] = []
    mark = ""
    for word in words:
        if word in (JOIN, SPACE):
            mark = word
            continue
        token = _unescaped(word)
        spaced = not parts or (mark == SPACE if mark else rule.expects_space(token))
        rule.observe(token, spaced)
        if parts and spaced:
            parts.append(" ")
        parts.append("-" if token == HYPHEN else token)
        mark = ""
    return "".join(parts)


def _escaped(token: str) -> str:
    """Make a token of the text that looks like a mark one character longer."""
    return token + token[0] if _looks_like_a_mark(token) else token


def _unescaped(word: str) -> str:
    return word[1:] if _looks_like_a_mark(word) else word


def _looks_like_a_mark(token: str) -> bool:
    return token[0] in (JOIN, SPACE) and not token.strip(token[0])


# Lengths are bounded where a pattern could otherwise look far ahead from every character of a long word.
_PROTECTED = re.compile(
    r"""(
      (?: (?:https?|ftp|file):// | www\. ) [!\#-;=?-~]* [\w/]   # an address, without the punctuation after it
    | [\w.+-]{1,64} @ [\w-]{1,63} (?: \. [\w-]{1,63} )+         # an e-mail address
    | </? [A-Za-z] [!-;=?-~]* >                                 # <b> </b> <br/>
    | & \#? \w{1,32} ;                                          # &amp; &#160;
    | \$ \{ [\w.]+ \} | \$ [A-Za-z_] \w*                        # ${name} $name
    | \{\{? [\w.:!-]* \}\}?                                     # {} {0} {name} {{name}}
    | % \( \w+ \) [a-z]                                         # %(name)s
    | (?<! [\w%] ) % (?: \d+\$ )? [-+\#0]* \d* (?: \.\d+ )? (?: hh? | ll? | [Lqjzt] )? [diouxXeEfFgGcsp] (?! \w )
    | (?<! [\w%] ) % \d+ (?! [\w%] )                            # %1 of KDE
    )""",
    re.VERBOSE | re.ASCII,
)


def cut_protected(text: str) -> list[str]:
    """Split a text around protected parts: every second part, starting with the second, must stay whole."""
    return _PROTECTED.split(text)


# --- Moses ---------------------------------------------------------------------------------------------------------

_GLUE = {HYPHEN, "/", "_", "\\"}
_CLOSING = re.compile(r"[,.?!:;%}\])]+")
_OPENING = re.compile(r"[(\[{¿¡#]+")
_CURRENCY = re.compile(r"[$£¥€]")
_SPACED_IN_FRENCH = {"?", "!", ":", ";", "%"}
# Quotation marks of one kind open and close each other: German closes with the mark that opens in English.
_QUOTES = dict.fromkeys('"„“”', "double") | dict.fromkeys("'‘‚’`", "single") | dict.fromkeys("«»", "angle")
_APOSTROPHES = {"'", "’"}
_NEVER_OPENS = {"’"}
_RATIO = {":"}


@lru_cache(64)
def _load_moses(language: str) -> MosesTokenizer:
    """Return Moses' tokenizer of sacremoses, with faster character tests that give the same results.

    The original makes a set of all letters in Unicode at every test.
    """
    with needs_extra("bpe", "tokenization bpe"):
        from sacremoses import MosesTokenizer

    moses = MosesTokenizer(language)
    small, letters = frozenset(moses.IsLower), frozenset(moses.IsAlpha)
    moses.islower = small.issuperset
    moses.isanyalpha = lambda text: not letters.isdisjoint(text)
    return moses


@lru_cache(_CACHED)
def _is_cjk(character: str) -> bool:
    from sacremoses.util import is_cjk

    return bool(is_cjk(character))


class MosesSplitter:
    """Splits text into the tokens of Moses."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._moses = _load_moses(language)
        self._letters_and_digits = frozenset(self._moses.IsAlnum)
        self._cut = lru_cache(_CACHED)(self._cut_uncached)

    def split(self, text: str) -> list[str]:
        """See :class:`WordSplitter`."""
        return add_marks(self._tokens(text.split()), MosesSpacing(self._language))

    def join(self, words: Sequence[str]) -> str:
        """See :class:`WordSplitter`."""
        return drop_marks(words, MosesSpacing(self._language))

    def _tokens(self, chunks: list[str]) -> Iterator[tuple[str, bool]]:
        following = [*(self._kind(chunk[0]) for chunk in chunks[1:]), ""]
        for index, chunk in enumerate(chunks):
            first, *others = self._cut(chunk, index == 0, following[index])
            yield first, True
            for token in others:
                yield token, False

    def _kind(self, character: str) -> str:
        """Return a stand-in for the next word: Moses only tests whether it begins with a small letter or a digit."""
        if "0" <= character <= "9":
            return "1"
        return "a" if self._moses.islower(character) else "A"

    def _cut_uncached(self, chunk: str, first: bool, following: str) -> tuple[str, ...]:
        parts = cut_protected(chunk)
        last = len(parts) - 1
        tokens: list[str] = []
        for index, part in enumerate(parts):
            if index % 2:
                tokens.append(part)
            elif part:
                tokens += self._run_moses(part, first and index == 0, following if index == last else "A")
        return tuple(tokens)

    def _run_moses(self, part: str, first: bool, following: str) -> list[str]:
        if self._letters_and_digits.issuperset(part):  # Moses never splits these
            return [part]
        text = " ".join([*([] if first else ["x"]), part, *([following] if following else [])])
        words: list[str] = self._moses.tokenize(text, aggressive_dash_splits=True, escape=False)
        words = words[0 if first else 1 : len(words) - bool(following)]
        # Moses drops control characters, and uses some words (DOTMULTI) internally: such a part stays whole.
        whole = "".join("-" if word == HYPHEN else word for word in words) == part
        return words if whole else [part]


class MosesSpacing:
    """The rules of Moses' detokenizer: no space before a comma, none after a bracket, alternating quotes.

    Unlike Moses it writes ``/``, ``_`` and ``12:30`` without spaces and ``5 €`` with one, which saves marks.
    """

    def __init__(self, language: str) -> None:
        self._language = language
        self._english, self._french = language == "en", language == "fr"
        self._open: set[str] = set()
        self._sticky = False  # the next token is expected to follow without a space
        self._ratio = False  # "12:" was written without a space
        self._last = " "

    def expects_space(self, token: str) -> bool:
        """See :class:`SpacingRule`."""
        kind = _kind_of(token, self._language)
        if self._sticky or kind in ("glue", "contraction"):
            return False
        if kind == "closing":
            return self._french and token in _SPACED_IN_FRENCH
        if kind == "quote":
            possessive = self._english and token in _APOSTROPHES and self._last[-1] == "s"
            return not (_QUOTES[token] in self._open or token in _NEVER_OPENS or possessive)
        if kind == "cjk":
            return self._language == "ko" or not _is_cjk(self._last[-1])
        return not (self._ratio and token[0].isdigit())

    def observe(self, token: str, spaced: bool) -> None:
        """See :class:`SpacingRule`."""
        kind = _kind_of(token, self._language)
        if kind == "quote":
            self._sticky = self._toggle_quote(token, spaced)
        elif kind == "currency":
            self._sticky = not self._last[-1].isdigit()
        else:
            self._sticky = kind in ("opening", "glue", "elision")
        self._ratio = token in _RATIO and not spaced and self._last[-1].isdigit()
        self._last = token

    def _toggle_quote(self, token: str, spaced: bool) -> bool:
        """Open or close a quotation; return whether the next token is expected without a space."""
        name = _QUOTES[token]
        if name in self._open:
            self._open.remove(name)
            return False
        if spaced or self._sticky:
            self._open.add(name)
            return True
        # Attached to the word before, with nothing to close: an apostrophe. In English, Moses leaves apostrophes alone
        # only at the end of a word (it writes the others as "'s").
        return token in (_NEVER_OPENS if self._english else _APOSTROPHES)


@lru_cache(_CACHED)
def _kind_of(token: str, language: str) -> str:
    if token in _GLUE:
        return "glue"
    if token in _QUOTES:
        return "quote"
    for kind, pattern in (("closing", _CLOSING), ("opening", _OPENING), ("currency", _CURRENCY)):
        if pattern.fullmatch(token):
            return kind
    if language == "en" and token[0] == "'" and token[1:2].isalpha():
        return "contraction"
    if language in ("fr", "it") and token[-1] == "'" and token[:-1].isalpha():
        return "elision"
    return "cjk" if _is_cjk(token[0]) else "plain"


# --- Chinese -------------------------------------------------------------------------------------------------------

_BEYOND_LATIN = "\u0250"
_CACHED_CHUNKS = 2**15  # fewer than words: a chunk between two spaces is often a whole sentence


def _load_jieba() -> Any:  # noqa: ANN401 - a module without types
    with needs_extra("zh", "tokenization bpe of Chinese"):
        import jieba
    return jieba


def jieba_dictionary() -> bytes:
    """Return the dictionary of the installed jieba."""
    _load_jieba()
    return (files("jieba") / "dict.txt").read_bytes()


class JiebaSplitter:
    """Splits Chinese text into the words of jieba.

    Uses only the given dictionary. jieba's shared tokenizer, its logging and its cache in the folder of temporary
    files stay untouched.

    :param dictionary: Lines of a word and its frequency, UTF-8.
    """

    def __init__(self, dictionary: bytes) -> None:
        self._jieba = _load_jieba().Tokenizer()
        self._jieba.FREQ, self._jieba.total = _read_dictionary(dictionary)
        self._jieba.initialized = True
        self._cut = lru_cache(_CACHED_CHUNKS)(self._cut_uncached)

    def split(self, text: str) -> list[str]:
        """See :class:`WordSplitter`."""
        return add_marks(self._tokens(text), ChineseSpacing())

    def join(self, words: Sequence[str]) -> str:
        """See :class:`WordSplitter`."""
        return drop_marks(words, ChineseSpacing())

    def _tokens(self, text: str) -> Iterator[tuple[str, bool]]:
        for chunk in text.split():
            first, *others = self._cut(chunk)
            yield first, True
            for token in others:
                yield token, False

    def _cut_uncached(self, chunk: str) -> tuple[str, ...]:
        tokens: list[str] = []
        for index, part in enumerate(cut_protected(chunk)):
            tokens += [part] if index % 2 else self._jieba.lcut(part)
        return tuple(tokens)


@lru_cache(1)  # reading takes a second, most models have the same dictionary, and no one changes it
def _read_dictionary(dictionary: bytes) -> tuple[dict[str, int], int]:
    """Return the frequency of every word, 0 for prefixes of words, and the total."""
    try:
        frequencies, total = _load_jieba().Tokenizer.gen_pfdict(io.BytesIO(dictionary))
    except ValueError as error:
        raise ModelError("jieba's dictionary: a line is not a word and a number; copy the model again") from error
    if total <= 0 or min(frequencies.values()) < 0:
        raise ModelError("jieba's dictionary: has no words, or negative frequencies; copy the model again")
    return frequencies, total


class ChineseSpacing:
    """Expects a space only between two words of Latin letters or digits."""

    def __init__(self) -> None:
        self._after_latin = False

    def expects_space(self, token: str) -> bool:
        """See :class:`SpacingRule`."""
        return self._after_latin and _is_latin(token[0])

    def observe(self, token: str, spaced: bool) -> None:
        """See :class:`SpacingRule`; the spacing itself does not matter for the next token."""
        self._after_latin = _is_latin(token[-1])


def _is_latin(character: str) -> bool:
    return character.isalnum() and character < _BEYOND_LATIN
