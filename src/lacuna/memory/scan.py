"""Find sentences that look personal or secret: addresses, numbers with a valid checksum, keys and tokens.

Patterns find what has a typical form. Names, postal addresses and anything in free words are not found. Knows nothing
of memories.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from lacuna.errors import SettingError
from lacuna.records import SentencePair

_NO_DIGIT = re.compile(r"\D")


def _luhn(text: str) -> bool:
    """Check the checksum of a card number."""
    digits = [int(digit) for digit in _NO_DIGIT.sub("", text)]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return 13 <= len(digits) <= 19 and len(set(digits)) > 1 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _iban(text: str) -> bool:
    """Check the checksum of an IBAN (ISO 13616)."""
    plain = re.sub(r"[^0-9A-Z]", "", text)
    if not 15 <= len(plain) <= 34:
        return False
    return int("".join(str(int(letter, 36)) for letter in plain[4:] + plain[:4])) % 97 == 1


def _phone(text: str) -> bool:
    """Tell whether the digits are as many as in a phone number."""
    return 8 <= len(_NO_DIGIT.sub("", text)) <= 15


def _secret(text: str) -> bool:
    """Tell a random token from a word: it mixes digits and letters."""
    token = re.split(r"[\s:=\"']+", text)[-1]
    return any(map(str.isdigit, token)) and any(map(str.isalpha, token)) and len(set(token)) >= 8


def _always(text: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class _Kind:
    pattern: re.Pattern[str]
    is_valid: Callable[[str], bool] = _always


_INTERNATIONAL = r"(?<![\w.+])\+\d[\d ()/.-]{6,20}\d(?!\w)"
_NATIONAL = r"(?<![\w.])(?<!\w[ -])0\d{2,5}[ /-]\d[\d -]{4,12}\d(?!\w)"
KINDS: dict[str, _Kind] = {
    "email": _Kind(re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})*\.[A-Za-z]{2,24}\b")),
    "phone": _Kind(re.compile(f"{_INTERNATIONAL}|{_NATIONAL}"), _phone),
    "iban": _Kind(re.compile(r"\b[A-Z]{2}\d{2}(?: ?[0-9A-Z]{2,4}){3,8}\b"), _iban),
    "card": _Kind(re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-])"), _luhn),
    "key": _Kind(
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----"
            r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
            r"|\bgh[pousr]_[0-9A-Za-z]{36}\b"
            r"|\bxox[abprs]-[0-9A-Za-z-]{10,}"
            r"|\bsk-[0-9A-Za-z_-]{20,}"
            r"|\beyJ[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]{8,}"
        )
    ),
    "token": _Kind(
        re.compile(r"(?i)\b(?:api[_ -]?key|secret|token|password|passwd)[\"']?\s*[:=]\s*[\"']?[^\s\"']{8,}"), _secret
    ),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence that looks personal or secret.

    :param kind: A name of :data:`KINDS`.
    :param side: ``source`` or ``target``.
    :param text: What was found.
    """

    sentence: int
    kind: str
    side: str
    text: str

    def as_json(self, show: bool) -> dict[str, Any]:
        """Return the finding as JSON; without ``show``, without the text."""
        content = asdict(self)
        return content if show else {name: value for name, value in content.items() if name != "text"}


def scan_sentences(
    sentences: Iterable[tuple[int, SentencePair]], kinds: Iterable[str] = tuple(KINDS)
) -> Iterator[Finding]:
    """Yield what looks personal or secret.

    :param sentences: Ids and pairs, as from ``store.sentences.present()``.
    :param kinds: What to look for.
    """
    chosen = list(kinds)
    if unknown := [kind for kind in chosen if kind not in KINDS]:
        raise SettingError(f"kind: got {unknown[0]!r}; allowed: {', '.join(KINDS)}")
    for sentence, pair in sentences:
        for side in ("source", "target"):
            text = getattr(pair, side)
            for name in chosen:
                kind = KINDS[name]
                for match in kind.pattern.finditer(text):
                    if kind.is_valid(match[0]):
                        yield Finding(sentence, name, side, match[0])
