"""A text as a sequence of words, and whether the words of a form stand in it at a given place.

The form and the text are read in the same way. A form may begin or end with signs that belong to it (``C++``,
``.NET``); the text must have them too. Knows nothing of models and files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lacuna.glossaries.stemming import Stemmer
from lacuna.glossaries.words import Word, fold, gaps_between, has_same_capitals, split_words

_POSSESSIVE = "'s"
_JOINTS = (" ", "-")


@dataclass(frozen=True, slots=True)
class WordSequence:
    """The words of a text or of a form, in each spelling that is compared.

    :param words: The words as they stand.
    :param folded: The words without capitals.
    :param stems: Their stems.
    :param gaps: What is before each word, and after the last one.
    """

    text: str
    words: tuple[Word, ...]
    folded: tuple[str, ...]
    stems: tuple[str, ...]
    gaps: tuple[str, ...]

    @property
    def start(self) -> int:
        """Where the first word starts."""
        return self.words[0].start

    @property
    def end(self) -> int:
        """Where the last word ends."""
        return self.words[-1].end


def read_words(text: str, stemmer: Stemmer) -> WordSequence:
    """Split a text. The English possessive ``'s`` is no word, and no gap."""
    words = split_words(text)
    if stemmer.language == "en" and "s" in text:
        words = _without_possessives(text, words)
    gaps = gaps_between(text, words)
    if stemmer.language == "en":
        gaps = [gap.removeprefix(_POSSESSIVE) for gap in gaps]
    stems = tuple(stemmer.stem(word.text) for word in words)
    return WordSequence(text, tuple(words), tuple(fold(word.text) for word in words), stems, tuple(gaps))


def match_at(
    text: WordSequence, place: int, form: WordSequence, *, inflected: bool, case_sensitive: bool, joints: bool = False
) -> tuple[int, int] | None:
    """Return where a form starts and ends in a text, if it stands at a given word.

    :param place: The number of the word.
    :param form: At least one word.
    :param inflected: Compare stems. A form whose words are all spelled as they are is always the same.
    :param case_sensitive: Capitals must be in the same places.
    :param joints: Between its words, the text may also have a single space or hyphen.
    """
    after = place + len(form.words)
    if text.folded[place:after] != form.folded and not (inflected and text.stems[place:after] == form.stems):
        return None
    if not all(
        gap == own or (joints and own and gap in _JOINTS)
        for gap, own in zip(text.gaps[place + 1 : after], form.gaps[1:-1], strict=True)
    ):
        return None
    words = text.words[place:after]
    if case_sensitive and not _have_same_capitals(form.words, words):
        return None
    before, behind = form.text[: form.start].lstrip(), form.text[form.end :].rstrip()
    if not (text.text.endswith(before, 0, words[0].start) and text.text.startswith(behind, words[-1].end)):
        return None
    return words[0].start - len(before), words[-1].end + len(behind)


def select_longest(spans: Iterable[tuple[int, int]]) -> list[int]:
    """Choose spans that do not overlap, the longest first and then the leftmost; return their numbers in text order."""
    found = list(spans)
    chosen: list[int] = []
    for number in sorted(range(len(found)), key=lambda number: (found[number][0] - found[number][1], found[number][0])):
        start, end = found[number]
        if all(end <= found[other][0] or found[other][1] <= start for other in chosen):
            chosen.append(number)
    return sorted(chosen, key=lambda number: found[number])


def _have_same_capitals(written: Sequence[Word], found: Sequence[Word]) -> bool:
    return all(has_same_capitals(one.text, other.text) for one, other in zip(written, found, strict=True))


def _without_possessives(text: str, words: list[Word]) -> list[Word]:
    return [
        word
        for number, word in enumerate(words)
        if word.text != "s"
        or not number
        or words[number - 1].end != word.start - 1
        or text[word.start - 1] not in "'\u2019"
    ]
