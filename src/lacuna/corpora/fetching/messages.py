"""Strings of a program's interface as text for translation: marks for the keyboard and line breaks are taken out.

Placeholders and inline markup stay as they are: a translator has to carry them over. Knows nothing of files.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lacuna.errors import FetchError

# What is not language: %(name)s %s %1$d {name} ${name} %{name}, tags, entities, addresses.
_NOT_WORDS = re.compile(
    r"%\(\w+\)[-+#0-9.]*[a-zA-Z]|%(?:\d+\$)?[-+#0-9.]*[a-zA-Z%]|[$%]?\{[^{}]*\}|<[^<>]+>|&#?\w+;|https?://\S+"
)
_COLON = re.compile("[:\uff1a]")
# A name out of the program, such as variable_name or Select_Person_selector.
_IDENTIFIER = re.compile(r"\S+_\S+")
_LETTERS = re.compile(r"[^\W\d_]")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_TOKENS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+|[^\w\s]")

# A label with a shortcut in the middle of a word ("Sa_ve as") is short; in prose an underscore is part of a name.
_LABEL_WORDS = 8
_STRICT_RATIO = 2.0
_SENTENCE_WORDS = 4


def tidy(text: str, accelerator: str = "") -> str:
    """Put a message on one line and take out its keyboard shortcut.

    :param text: The message as the catalog has it.
    :param accelerator: The mark before a shortcut letter in this program, ``&`` or ``_``; empty for none.
    """
    return " ".join((strip_accelerator(text, accelerator) if accelerator else text).split())


def strip_accelerator(text: str, mark: str) -> str:
    """Take out one shortcut: ``&Open`` and ``Sa_ve`` lose the mark, ``打开(&O)`` loses the whole bracket.

    :param text: The message.
    :param mark: The mark of this program. Doubled, it means itself.
    """
    escaped = re.escape(mark)
    bracket = re.sub(rf"\s*[(\uff08]{escaped}\w[)\uff09]", "", text)
    if bracket != text:
        return bracket
    masked = _NOT_WORDS.sub(lambda found: "\0" * len(found[0]), text)
    single = list(re.finditer(rf"(?<!{escaped}){escaped}(?=[^\W_])", masked))
    if len(single) == 1 and (_starts_word(masked, single[0].start()) or len(text.split()) <= _LABEL_WORDS):
        text = text[: single[0].start()] + text[single[0].end() :]
    return text.replace(mark * 2, mark)


def _starts_word(text: str, place: int) -> bool:
    return place == 0 or not text[place - 1].isalnum()


def has_words(text: str) -> bool:
    """Tell whether at least two letters are left (one, in Chinese) when placeholders and markup are taken away."""
    rest = _NOT_WORDS.sub(" ", text)
    if _IDENTIFIER.fullmatch(rest):
        return False
    return bool(_CJK.search(rest)) or len(_LETTERS.findall(rest)) >= 2


def fault(source: str, target: str, *, strict: bool = False) -> str | None:
    """Name why two tidy strings can be no translation of each other, or None.

    :param source: One side.
    :param target: The other side.
    :param strict: Also ask for like lengths, and for a colon on both sides or on neither.
    """
    if not (has_words(source) and has_words(target)):
        return "no words beside placeholders"
    if strict and not _alike(source, target):
        return "likely misplaced"
    return None


def _alike(source: str, target: str) -> bool:
    if bool(_COLON.search(source)) != bool(_COLON.search(target)):
        return False
    # Chinese says the same in a third of the characters, so lengths can only be compared between alphabets.
    alphabetic = not (_CJK.search(source) or _CJK.search(target))
    short, long = sorted((len(source), len(target)))
    return not alphabetic or long <= _STRICT_RATIO * short


def is_sentence(text: str) -> bool:
    """Tell whether a text has four words or more; two Chinese or Japanese characters count as a word.

    Texts that differ in case only get the same answer, so a choice made by it never parts them.
    """
    tokens: list[str] = _TOKENS.findall(unicodedata.normalize("NFC", text.casefold()))
    signs = sum(bool(_CJK.match(token)) for token in tokens)
    words = sum(token[0].isalnum() for token in tokens) - signs
    return words + signs // 2 >= _SENTENCE_WORDS


def count_tokens(text: str) -> int:
    """Count words and punctuation marks; a Chinese or Japanese character counts as one."""
    return len(_TOKENS.findall(text))


_DEFAULT = re.compile(r'Default: "(.*)"', re.DOTALL)
_BARE_KEY = re.compile(r"[A-Za-z0-9]+(?:[_.:-][A-Za-z0-9]+)+")


@dataclass(frozen=True, slots=True)
class Message:
    """One translated message.

    :param key: What the same message has in every language's catalog.
    :param place: Where in the catalog it stands, for a person to find it.
    :param english: The English it was translated from; None where only the English catalog has it.
    :param text: The translation.
    """

    key: str
    place: str
    english: str | None
    text: str


def read_catalog(data: bytes, name: str, *, keyed: bool = False) -> Iterator[Message]:
    """Read the translated messages of one catalog.

    :param data: The catalog file.
    :param name: Its name; the ending (``.po .mo .json``) says how to read it.
    :param keyed: Message ids may be mere keys, with the English in a comment (``.po`` only).
    """
    from translate.storage import mo, pypo  # only here: the toolkit takes a while to import

    # One of the two is typed in part only; both are taken as they come.
    compiled: Any = mo.mofile
    plain: Any = pypo.pofile
    try:
        if name.endswith(".json"):
            yield from _flatten(json.loads(data), "")
        elif name.endswith(".mo"):
            yield from _gettext(compiled.parsestring(data).units, keyed=False)
        else:
            # The toolkit reads bytes it cannot decode as Latin-1 without a word.
            yield from _gettext(plain.parsestring(data.decode().encode()).units, keyed)
    # Both readers of the toolkit raise whatever their innards raise; here every one of them means the same.
    except Exception as error:
        raise FetchError(f"{name}: this catalog cannot be read ({error}); please report it") from error


def _flatten(node: Any, path: str) -> Iterator[Message]:  # noqa: ANN401 - JSON is any
    if isinstance(node, dict):
        for key, child in node.items():
            yield from _flatten(child, f"{path}.{key}" if path else key)
    elif isinstance(node, str) and node:
        yield Message(path, path, None, node)


def _gettext(units: list[Any], keyed: bool) -> Iterator[Message]:
    for ordinal, unit in enumerate(units, start=1):
        if unit.isheader() or unit.isobsolete() or unit.isfuzzy():
            continue
        context = unit.getcontext() or ""
        place = f"{ordinal} ({context})" if context else str(ordinal)
        sources, targets = _forms(unit.source), _forms(unit.target)
        if keyed:
            sources = _english(sources[0], unit.getnotes("developer"))
        for source, target in _by_number(sources, targets):
            if source and target:
                yield Message(f"{context}\x04{unit.source}\x04{source}", place, source, target)


def _forms(text: Any) -> list[str]:  # noqa: ANN401 - a str, or the toolkit's str with several forms
    return [str.__str__(form) for form in getattr(text, "strings", [text]) if form is not None]


def _english(message_id: str, comment: str) -> list[str]:
    found = _DEFAULT.search(comment)
    if found:
        return [found[1].replace('\\"', '"').replace("\\n", "\n")]
    return [] if _BARE_KEY.fullmatch(message_id) else [message_id]


def _by_number(sources: list[str], targets: list[str]) -> Iterator[tuple[str, str]]:
    """Pair English singular and plural with the first and the last form of the other language."""
    if not sources or not targets:
        return
    # A language with one form for all numbers writes it for the plural: "One file" would be a wrong partner.
    if len(sources) == 1 or len(targets) > 1:
        yield sources[0], targets[0]
    if len(sources) > 1:
        yield sources[-1], targets[-1]
