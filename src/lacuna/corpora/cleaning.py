"""Cleaning: one spelling of white space and accents, and away with pairs no translation can be learned from.

Knows nothing of files. Holds no text: duplicates are known by a 128-bit hash, so memory is a few dozen bytes a pair.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import xxhash

from lacuna.errors import CorpusError, SettingError
from lacuna.records import SentencePair

# A Chinese, Japanese or Korean sign says about as much as three letters; counted so, one ratio serves all scripts.
_WIDE = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff01-\uff60\U00020000-\U0003ffff]")
_WIDE_SIGN_LETTERS = 3
# Added to both lengths before they are compared: "OK" may well be "In Ordnung", while long sentences keep step.
_RATIO_CUSHION = 16
# U+FFFD is what is left of a character after a wrong decoding.
_BROKEN = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufffd\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Cleaning:
    """What a pair must be to stay. Every pair is normalized first: see :func:`normalize`.

    :param max_words: Words, split at white space, that either side may have.
    :param max_characters: Characters that either side may have; for scripts that write no spaces.
    :param max_ratio: How many times as long one side may be as the other; short texts are given some slack.
    :param min_letters: Letters that each side must have; 0 keeps pairs of mere numbers and signs.
    :param drop_duplicates: Keep only the first of pairs that are the same on both sides.
    :param drop_identical: Drop pairs whose two sides are equal. Off, for names and commands rightly stay as they are.
    :param drop_broken: Drop pairs with control characters or the mark of a wrong decoding (U+FFFD).
    """

    max_words: int = 250
    max_characters: int = 2000
    max_ratio: float = 4.0
    min_letters: int = 1
    drop_duplicates: bool = True
    drop_identical: bool = False
    drop_broken: bool = True

    def __post_init__(self) -> None:
        for name in ("max_words", "max_characters"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} must be 1 or more, got {getattr(self, name)}")
        if not self.max_ratio >= 1:  # written so that NaN is refused too
            raise SettingError(f"max_ratio must be 1 or more, got {self.max_ratio}; use inf for no limit")
        if self.min_letters < 0:
            raise SettingError(f"min_letters must be 0 or more, got {self.min_letters}")

    def fault(self, source: str, target: str) -> str | None:
        """Name what is wrong with a normalized pair, or None; duplicates are not looked for here."""
        sides = (source, target)
        if not all(sides):
            return "empty"
        if self.drop_broken and any(_BROKEN.search(side) for side in sides):
            return "broken characters"
        if any(_letters_below(side, self.min_letters) for side in sides):
            return "too few letters"
        if any(len(side) > self.max_characters or side.count(" ") >= self.max_words for side in sides):
            return "too long"
        if _ratio(source, target) > self.max_ratio:
            return "lengths too different"
        if self.drop_identical and source == target:
            return "identical sides"
        return None


DEFAULT_CLEANING = Cleaning()


@dataclass(slots=True)
class CleaningReport:
    """What cleaning did, counted while the pairs pass.

    :param kept: Pairs that stayed.
    :param dropped: Pairs that went, by reason.
    """

    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    @property
    def read(self) -> int:
        """Pairs seen so far."""
        return self.kept + self.dropped.total()

    def summary(self) -> str:
        """Say it in one line, the most frequent reason first."""
        text = f"kept {self.kept:,} of {self.read:,} pairs"
        reasons = sorted(self.dropped.items(), key=lambda item: (-item[1], item[0]))
        return text + (f" (dropped {', '.join(f'{count:,} {reason}' for reason, count in reasons)})" if reasons else "")


def clean(
    pairs: Iterable[SentencePair],
    settings: Cleaning = DEFAULT_CLEANING,
    report: CleaningReport | None = None,
) -> Iterator[SentencePair]:
    """Stream the pairs worth keeping, normalized, in their order and with their origins.

    :param pairs: Any pairs, read once.
    :param settings: What a pair must be to stay.
    :param report: Counts what is kept and dropped, as far as the stream has been consumed.
    :raises CorpusError: At the end of the stream, where pairs came in and all were dropped.
    """
    report = CleaningReport() if report is None else report
    seen: set[bytes] = set()
    before = report.kept
    total = 0
    for total, pair in enumerate(pairs, start=1):  # noqa: B007 - the last number is the count
        source, target = normalize(pair.source), normalize(pair.target)
        fault = settings.fault(source, target)
        if fault is None and settings.drop_duplicates:
            # Normalized text has no newline, so the two sides cannot run into each other.
            digest = xxhash.xxh3_128_digest(f"{source}\n{target}".encode("utf-8", "surrogatepass"))
            fault = "duplicate" if digest in seen else None
            seen.add(digest)
        if fault is not None:
            report.dropped[fault] += 1
            continue
        report.kept += 1
        yield replace(pair, source=source, target=target)
    if total and report.kept == before:
        raise CorpusError(f"empty after cleaning: {report.summary()}; loosen the cleaning, or check the corpus")


def normalize(text: str) -> str:
    """Compose accents (NFC), make each run of white space one space, strip the ends.

    NFC and not NFKC: the latter would rewrite ``½`` and full-width signs, which a translation may need to reproduce.
    """
    return " ".join(unicodedata.normalize("NFC", text).split())


def _letters_below(text: str, wanted: int) -> bool:
    if wanted == 0:
        return False
    for character in text:
        if character.isalpha():
            wanted -= 1
            if wanted == 0:
                return False
    return True


def _ratio(source: str, target: str) -> float:
    shorter, longer = sorted((_length(source), _length(target)))
    return (longer + _RATIO_CUSHION) / (shorter + _RATIO_CUSHION)


def _length(text: str) -> int:
    if text.isascii():
        return len(text)
    return len(text) + (_WIDE_SIGN_LETTERS - 1) * len(_WIDE.findall(text))
