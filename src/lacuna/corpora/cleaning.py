"""Clean a corpus: normalize white space and accents, and drop pairs from which no translation can be learned.

Duplicates are detected by 128-bit hashes, so memory is a few dozen bytes per pair. Knows nothing of files.
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

# A Chinese, Japanese or Korean character counts as three letters, so that one length ratio works for all scripts.
_WIDE = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff01-\uff60\U00020000-\U0003ffff]")
_WIDE_LETTERS = 3
# Added to both lengths before they are compared: "OK" may be "In Ordnung", but long sentences have similar lengths.
_RATIO_CUSHION = 16
# Control characters, and U+FFFD, the replacement character of a wrong decoding.
_BROKEN = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufffd\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Cleaning:
    """Conditions that a pair must meet. Every pair is normalized first, see :func:`normalize`.

    :param max_words: Largest number of words on either side, split at white space.
    :param max_characters: Largest number of characters on either side, for scripts without spaces.
    :param max_ratio: Largest ratio of the two lengths; short texts get some slack.
    :param min_letters: Smallest number of letters on each side; 0 keeps pairs of numbers and punctuation.
    :param drop_duplicates: Keep only the first of several equal pairs.
    :param drop_identical: Drop pairs with equal sides. Off, because names and commands often stay the same.
    :param drop_broken: Drop pairs with control characters or U+FFFD, the sign of a wrong decoding.
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
        if not self.max_ratio >= 1:  # also refuses NaN
            raise SettingError(f"max_ratio must be 1 or more, got {self.max_ratio}; use inf for no limit")
        if self.min_letters < 0:
            raise SettingError(f"min_letters must be 0 or more, got {self.min_letters}")

    def fault(self, source: str, target: str) -> str | None:
        """Name the fault of a normalized pair, or return None; duplicates are not checked here."""
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
    """Counts of kept and dropped pairs, updated while the pairs are streamed.

    :param kept: Number of pairs kept.
    :param dropped: Number of pairs dropped, by reason.
    """

    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    @property
    def read(self) -> int:
        """Number of pairs read so far."""
        return self.kept + self.dropped.total()

    def summary(self) -> str:
        """Return the counts in one line, the most frequent reason first."""
        text = f"kept {self.kept:,} of {self.read:,} pairs"
        reasons = sorted(self.dropped.items(), key=lambda item: (-item[1], item[0]))
        return text + (f" (dropped {', '.join(f'{count:,} {reason}' for reason, count in reasons)})" if reasons else "")


def clean(
    pairs: Iterable[SentencePair],
    settings: Cleaning | None = DEFAULT_CLEANING,
    report: CleaningReport | None = None,
) -> Iterator[SentencePair]:
    """Stream the pairs that meet the conditions, normalized, in order and with their origins.

    :param pairs: Any pairs, read once.
    :param settings: The conditions; None keeps every pair as it is.
    :param report: Counts kept and dropped pairs while the stream is consumed.
    :raises CorpusError: At the end of the stream, if there were pairs and all were dropped.
    """
    report = CleaningReport() if report is None else report
    before = report.kept
    total = 0
    seen: set[bytes] = set()
    for total, pair in enumerate(pairs, start=1):  # noqa: B007 - the last number is the count
        if settings is None:
            report.kept += 1
            yield pair
            continue
        source, target = normalize(pair.source), normalize(pair.target)
        fault = settings.fault(source, target)
        if fault is None and settings.drop_duplicates:
            # Normalized text has no newline, so it separates the two sides unambiguously.
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


def count_pairs(pairs: Iterable[SentencePair], settings: Cleaning | None = DEFAULT_CLEANING) -> CleaningReport:
    """Read all pairs and count those that :func:`clean` keeps and drops.

    A pass before slow work finds errors in the corpus at once, and gives the number of pairs for the progress bar.
    """
    report = CleaningReport()
    for _ in clean(pairs, settings, report):
        pass
    return report


def normalize(text: str) -> str:
    """Compose accents (NFC), replace each run of white space by one space, and strip the ends.

    NFKC is not used: it would change ``½`` and full-width characters, which a translation may have to reproduce.
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
    return len(text) + (_WIDE_LETTERS - 1) * len(_WIDE.findall(text))
