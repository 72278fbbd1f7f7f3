"""Strings of a program's interface as text for translation: marks for the keyboard and line breaks are taken out.

Placeholders and inline markup stay as they are: a translator has to carry them over. Knows nothing of files.
"""

from __future__ import annotations

import re
import unicodedata

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
