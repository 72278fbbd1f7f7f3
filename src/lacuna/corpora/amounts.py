"""Amounts of money: numbers with a currency, which a translation writes in its own way but must not change.

They cannot be masked, since ``1.234,56 €`` becomes ``€1,234.56``, so a translation is compared with its source. Only
the digits and the currency are compared. Knows nothing of models and files.
"""

from __future__ import annotations

import re
from collections import Counter

# How a currency is written; words are stems, since they are inflected.
_CURRENCIES = {
    "EUR": r"€|\bEUR\b|\beuro|\bевро|欧元|歐元|ユーロ|유로",
    "USD": r"\$|\bUSD\b|\bd[oóò]l+[aáe]r|\bдоллар|美元|ドル|달러",
    "GBP": r"£|\bGBP\b|\bpound|\bpfund|\blivre|\bлибр|\bsterl|\bфунт|英镑|英鎊|ポンド|파운드",
    "JPY": r"¥|￥|\bJPY\b|\bCNY\b|\byen\b|\byuan|\bиен|日元|人民币|円|元|엔",
    "CHF": r"\bCHF\b|\bfrank|\bfranc|\bfr\.|瑞士法郎|フラン",
}
_NUMBER = r"\d{1,3}(?:[ \u00a0\u2009\u202f'’]\d{3})+(?:[.,]\d+)?(?!\d)|\d+(?:[.,]\d+)*"
_SIGNS = r"[€$£¥￥]|(?:EUR|USD|GBP|JPY|CNY|CHF)(?![^\W\d_])"
_AMOUNT = re.compile(
    rf"(?<![\w$])(?:{_SIGNS})[ \u00a0\u202f]?(?:{_NUMBER})|(?<![\w.,])(?:{_NUMBER})[ \u00a0\u202f]?(?:{_SIGNS})"
)
_NUMBERS = re.compile(_NUMBER)
_WRITTEN = {code: re.compile(written, re.IGNORECASE) for code, written in _CURRENCIES.items()}


def same_amounts(source: str, target: str) -> bool:
    """Tell whether a translation has the numbers and currencies of all amounts of its source."""
    amounts = _AMOUNT.findall(source)
    if not amounts:
        return True
    digits = Counter(_digits(number) for amount in amounts for number in _NUMBERS.findall(amount))
    translated = Counter(map(_digits, _NUMBERS.findall(target)))
    if digits - translated:
        return False
    return all(
        written.search(target) is not None
        for written in _WRITTEN.values()
        if any(written.search(amount) for amount in amounts)
    )


def _digits(number: str) -> str:
    return "".join(digit for digit in number if digit.isdigit())
