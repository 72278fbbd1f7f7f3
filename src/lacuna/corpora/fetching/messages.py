"""Messages of a program's interface: reading them from catalogs, and turning them into text for translation.

Keyboard shortcuts and line breaks are removed. Placeholders and inline markup stay: a translator has to carry them
over.
"""

from __future__ import annotations

import io
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from lacuna.errors import CorpusError, FetchError
from lacuna.formats.mo import parse_mo
from lacuna.formats.po_entries import Message, read_po

# What is not language: %(name)s %s %1$d {name} ${name} %{name}, tags, entities, addresses.
_NOT_WORDS = re.compile(
    r"%\(\w+\)[-+#0-9.]*[a-zA-Z]|%(?:\d+\$)?[-+#0-9.]*[a-zA-Z%]|[$%]?\{[^{}]*\}|<[^<>]+>|&#?\w+;|https?://\S+"
)
_COLON = re.compile("[:\uff1a]")
_IDENTIFIER = re.compile(r"\S+_\S+")  # a name in the program, such as variable_name or Select_Person_selector
_LETTERS = re.compile(r"[^\W\d_]")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_TOKENS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+|[^\w\s]")
_DEFAULT_COMMENT = re.compile(r'Default: "(.*)"', re.DOTALL)
_BARE_KEY = re.compile(r"[A-Za-z0-9]+(?:[_.:-][A-Za-z0-9]+)+")

# A label with a shortcut inside a word ("Sa_ve as") is short; in longer text an underscore is part of a name.
_LABEL_WORDS = 8
_STRICT_RATIO = 2.0
_SENTENCE_WORDS = 4


@dataclass(frozen=True, slots=True)
class LocalizedMessage:
    """A message in one language.

    :param key: Identifies the message in the catalogs of all languages.
    :param place: Where to find it in the catalog.
    :param english: The English text it was translated from; None where only the English catalog has it.
    :param text: The translation.
    """

    key: str
    place: str
    english: str | None
    text: str


def read_catalog(data: bytes, name: str, *, keyed: bool = False) -> Iterator[LocalizedMessage]:
    """Read the translated messages of a catalog.

    :param data: The catalog file.
    :param name: Its name; the suffix (``.po .mo .json``) gives the format.
    :param keyed: Message ids may be keys of the program, with the English text in a comment (``.po`` only).
    """
    try:
        if name.endswith(".json"):
            yield from _flatten(json.loads(data), "")
        elif name.endswith(".mo"):
            yield from _localized(parse_mo(data, name).messages, keyed=False)
        else:
            yield from _localized(read_po(io.BytesIO(data), name).messages, keyed)
    except (CorpusError, ValueError, RecursionError) as error:
        raise FetchError(f"{name}: this catalog cannot be read ({error}); please report it") from error


def _flatten(node: Any, path: str) -> Iterator[LocalizedMessage]:  # noqa: ANN401 - JSON is any
    if isinstance(node, dict):
        for key, child in node.items():
            yield from _flatten(child, f"{path}.{key}" if path else key)
    elif isinstance(node, str) and node:
        yield LocalizedMessage(path, path, None, node)


def _localized(messages: Iterable[Message], keyed: bool) -> Iterator[LocalizedMessage]:
    for message in messages:
        sources = _english(message.ids[0], message.comment) if keyed else message.ids
        for source, target in _by_number(sources, message.texts):
            if source and target:
                key = f"{message.context}\x04{message.ids[0]}\x04{source}"
                yield LocalizedMessage(key, message.place, source, target)


def _english(message_id: str, comment: str) -> tuple[str, ...]:
    default = _DEFAULT_COMMENT.search(comment)
    if default:
        return (default[1].replace('\\"', '"').replace("\\n", "\n"),)
    return () if _BARE_KEY.fullmatch(message_id) else (message_id,)


def _by_number(sources: tuple[str, ...], targets: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Pair English singular and plural with the first and the last form of the other language."""
    if not sources or not targets:
        return
    # A language with one form for all numbers writes it for the plural: it does not translate "One file".
    if len(sources) == 1 or len(targets) > 1:
        yield sources[0], targets[0]
    if len(sources) > 1:
        yield sources[-1], targets[-1]


def tidy(text: str, accelerator: str = "") -> str:
    """Put a message on one line and remove its keyboard shortcut.

    :param text: The message as in the catalog.
    :param accelerator: The mark before a shortcut letter in this program, ``&`` or ``_``; empty for none.
    """
    return " ".join((strip_accelerator(text, accelerator) if accelerator else text).split())


def strip_accelerator(text: str, mark: str) -> str:
    """Remove one shortcut: ``&Open`` and ``Sa_ve`` lose the mark, ``打开(&O)`` loses the whole bracket.

    :param text: The message.
    :param mark: The mark of this program. Doubled, it means itself.
    """
    escaped = re.escape(mark)
    bracket = re.sub(rf"\s*[(\uff08]{escaped}\w[)\uff09]", "", text)
    if bracket != text:
        return bracket
    masked = _NOT_WORDS.sub(lambda match: "\0" * len(match[0]), text)
    single = list(re.finditer(rf"(?<!{escaped}){escaped}(?=[^\W_])", masked))
    if len(single) == 1 and (_starts_word(masked, single[0].start()) or len(text.split()) <= _LABEL_WORDS):
        text = text[: single[0].start()] + text[single[0].end() :]
    return text.replace(mark * 2, mark)


def _starts_word(text: str, position: int) -> bool:
    return position == 0 or not text[position - 1].isalnum()


def has_words(text: str) -> bool:
    """Tell whether at least two letters (one in Chinese) remain without placeholders and markup."""
    rest = _NOT_WORDS.sub(" ", text)
    if _IDENTIFIER.fullmatch(rest):
        return False
    return bool(_CJK.search(rest)) or len(_LETTERS.findall(rest)) >= 2


def fault(source: str, target: str, *, strict: bool = False) -> str | None:
    """Name the reason why two tidy strings cannot be translations of each other, or return None.

    :param source: One side.
    :param target: The other side.
    :param strict: Also require similar lengths, and a colon on both sides or on neither.
    """
    if not (has_words(source) and has_words(target)):
        return "no words beside placeholders"
    if strict and not _similar(source, target):
        return "likely misplaced"
    return None


def _similar(source: str, target: str) -> bool:
    if bool(_COLON.search(source)) != bool(_COLON.search(target)):
        return False
    # Chinese needs a third of the characters, so lengths are comparable between alphabets only.
    alphabetic = not (_CJK.search(source) or _CJK.search(target))
    short, long = sorted((len(source), len(target)))
    return not alphabetic or long <= _STRICT_RATIO * short


def is_sentence(text: str) -> bool:
    """Tell whether a text has four words or more; two Chinese or Japanese characters count as a word.

    Texts that differ in case only get the same answer, so the split never separates them.
    """
    tokens: list[str] = _TOKENS.findall(unicodedata.normalize("NFC", text.casefold()))
    characters = sum(bool(_CJK.match(token)) for token in tokens)
    words = sum(token[0].isalnum() for token in tokens) - characters
    return words + characters // 2 >= _SENTENCE_WORDS


def count_tokens(text: str) -> int:
    """Count words and punctuation marks; a Chinese or Japanese character counts as one."""
    return len(_TOKENS.findall(text))
