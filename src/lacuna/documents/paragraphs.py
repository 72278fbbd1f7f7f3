"""Translate paragraphs: cut them into sentences, translate those, and join the translations.

White space and everything without letters stay as they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from lacuna.corpora.placeholders import placeholder_spans
from lacuna.documents.sentence_splitting import Piece, split_clauses, split_sentences
from lacuna.glossaries import Glossary
from lacuna.memory import Memory, SegmentMatches
from lacuna.models import Model
from lacuna.records import Languages, TranslatedTerm, Translation
from lacuna.translator.restoring import check_translation
from lacuna.translator.term_check import TermCheck

TranslateGroups = Callable[[Iterable[Sequence[str]]], Iterator[list[Translation]]]
"""Translates groups of sentences, of any size, and yields the translations of each group in order."""

CheckTranslation = Callable[[str, str], str]
"""Says why a person should look at the translation of a source; or nothing."""

_LETTER = re.compile(r"[^\W\d_]")
_WITHOUT_SPACES = ("zh", "ja", "th", "lo", "km", "my")


class Sentence(NamedTuple):
    """A sentence of a paragraph.

    :param translation: None if it stays as it is.
    :param written: The part of the translated paragraph, and the white space after it.
    :param match: Name of the memory that has this translation of the same sentence, which is then a person's; or empty.
    """

    source: str
    translation: Translation | None
    written: Piece
    match: str = ""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A translated paragraph, sentence by sentence."""

    source: str
    sentences: tuple[Sentence, ...]

    @property
    def text(self) -> str:
        """The translation."""
        return "".join(part for sentence in self.sentences for part in sentence.written)

    @property
    def confidence(self) -> float | None:
        """Mean confidence of all tokens, as far as sentences have one."""
        known = [
            (translation.confidence, translation.tokens)
            for translation in self._translations
            if translation.confidence is not None
        ]
        tokens = sum(count for _, count in known)
        return sum(confidence * count for confidence, count in known) / tokens if tokens else None

    @property
    def flag(self) -> str:
        """Why a person should look at it: the first reason of its sentences, or what the whole has lost; or empty."""
        first = next((translation.flag for translation in self._translations if translation.flag), "")
        return first or check_translation(self.source, self.text)

    @property
    def has_unknown_confidence(self) -> bool:
        """Whether the confidence of a sentence is not known that a person did not translate."""
        translations = (sentence.translation for sentence in self.sentences if not sentence.match)
        return any(translation is not None and translation.confidence is None for translation in translations)

    @property
    def terms(self) -> tuple[TranslatedTerm, ...]:
        """The terms of the glossary in all sentences, with their places in the whole source and translation."""
        terms: list[TranslatedTerm] = []
        place = written = 0
        for sentence in self.sentences:
            # Only white space is between sentences.
            place = self.source.index(sentence.source, place)
            terms += [_moved(term, place, written) for term in _terms(sentence)]
            place += len(sentence.source)
            written += sum(map(len, sentence.written))
        return tuple(terms)

    @property
    def without_glossary(self) -> str:
        """The translation without the glossary, if that differs; otherwise empty."""
        if not any(translation.without_glossary for translation in self._translations):
            return ""
        return "".join(_without_glossary(sentence) + sentence.written.gap for sentence in self.sentences)

    @property
    def without_memory(self) -> bool:
        """Whether a sentence was translated without memory, because it did not answer."""
        return any(translation.without_memory for translation in self._translations)

    @property
    def tokens(self) -> int:
        """Number of tokens of all translations."""
        return sum(translation.tokens for translation in self._translations)

    @property
    def score(self) -> float:
        """Mean score of the sentences, weighted by tokens."""
        total = sum(translation.score * translation.tokens for translation in self._translations)
        return total / max(1, self.tokens)

    @property
    def _translations(self) -> list[Translation]:
        return [sentence.translation for sentence in self.sentences if sentence.translation is not None]


@dataclass(frozen=True, slots=True)
class Splitter:
    """Cuts paragraphs into sentences, and joins translations of them.

    :param fits: Whether a sentence is short enough for the model; longer ones are cut into clauses.
    :param lines: Each line is one sentence.
    """

    languages: Languages
    fits: Callable[[str], bool]
    lines: bool = False

    def split(self, text: str) -> list[Piece]:
        """Cut a paragraph into sentences, and sentences that are too long into clauses."""
        sentences = _lines(text) if self.lines else split_sentences(text, self.languages.source)
        pieces: list[Piece] = []
        for sentence in sentences:
            if not sentence.text or self.fits(sentence.text):
                pieces.append(sentence)
                continue
            *first, last = split_clauses(sentence.text, self.fits)
            pieces += [*first, Piece(last.text, last.gap + sentence.gap)]
        return pieces

    def join(self, text: str, pieces: Sequence[Piece], translations: Iterable[Translation]) -> Paragraph:
        """Put the translations of the pieces that :func:`is_translatable` back into a paragraph."""
        following = iter(translations)
        sentences = []
        for number, piece in enumerate(pieces):
            new = next(following) if is_translatable(piece.text) else None
            written = piece.text if new is None else new.text
            last = number + 1 == len(pieces)
            sentences.append(Sentence(piece.text, new, Piece(written, piece.gap if last else self._gap(piece))))
        return Paragraph(text, tuple(sentences))

    def _gap(self, piece: Piece) -> str:
        """Return the space between two sentences of the translation."""
        spaced = not self.languages.target.lower().startswith(_WITHOUT_SPACES)
        if not piece.gap and piece.text and spaced:
            return " "
        return "" if piece.gap == " " and not spaced else piece.gap


def _terms(sentence: Sentence) -> tuple[TranslatedTerm, ...]:
    return () if sentence.translation is None else sentence.translation.terms


def _without_glossary(sentence: Sentence) -> str:
    return (sentence.translation.without_glossary if sentence.translation else "") or sentence.written.text


def _moved(term: TranslatedTerm, place: int, written: int) -> TranslatedTerm:
    """Return a term with its places in a text that its sentence is a part of."""
    target_start = term.target_start + written if term.target_start >= 0 else -1
    return replace(term, start=term.start + place, end=term.end + place, target_start=target_start)


def unchecked(source: str, text: str) -> str:
    """Find nothing wrong with a translation, without a glossary."""
    return ""


def checking(glossary: Glossary | None, languages: Languages | None, memories: Sequence[Memory]) -> CheckTranslation:
    """Return what checks translations against a glossary, if there is one.

    :param memories: Where the parts of compounds come from.
    """
    if glossary is None or languages is None:
        return unchecked
    return TermCheck(glossary, languages, memories).flag


def fitting(model: Model) -> Callable[[str], bool]:
    """Return a function that tells whether a model can read a sentence without truncating it."""
    # No character is more than four bytes, and no tokenizer goes below bytes. Some take ligatures apart.
    short = model.max_length // 4 - 2

    def fits(text: str) -> bool:
        if len(text) <= short and (text.isascii() or len(unicodedata.normalize("NFKC", text)) <= short):
            return True
        return len(model.encode_sources([text])[0]) <= model.max_length

    return fits


def translate_paragraphs(
    groups: Iterable[Sequence[str]], splitter: Splitter, translate: TranslateGroups
) -> Iterator[list[Paragraph]]:
    """Translate groups of any number of paragraphs, and yield the groups in order, as they become ready."""
    waiting: deque[list[tuple[str, list[Piece]]]] = deque()

    def sentences() -> Iterator[list[str]]:
        for texts in groups:
            cut = [(text, splitter.split(text)) for text in texts]
            waiting.append(cut)
            yield [piece.text for _, pieces in cut for piece in pieces if is_translatable(piece.text)]

    for translations in translate(sentences()):
        following = iter(translations)
        yield [splitter.join(text, pieces, following) for text, pieces in waiting.popleft()]


def is_translatable(text: str) -> bool:
    """Tell whether a text has a letter outside of its placeholders."""
    last = 0
    for start, end in placeholder_spans(text):
        if _LETTER.search(text, last, start):
            return True
        last = end
    return _LETTER.search(text, last) is not None


def _lines(text: str) -> list[Piece]:
    """Cut a text at newlines; blanks around a line are part of it."""
    *lines, last = text.split("\n")
    return [*(Piece(line, "\n") for line in lines), *([Piece(last, "")] if last else [])]


def mark_matches(paragraph: Paragraph, matches: SegmentMatches, check: CheckTranslation = unchecked) -> Paragraph:
    """Mark sentences that are translated as in a memory: a person did, so they get no confidence and lose their flag.

    The confidence is that of the model alone, which says nothing about them. A person may have written them before the
    glossary, so they are still checked against it.

    :param check: Checks them against the glossary.
    """
    return replace(paragraph, sentences=tuple(_marked(sentence, matches, check) for sentence in paragraph.sentences))


def _marked(sentence: Sentence, matches: SegmentMatches, check: CheckTranslation) -> Sentence:
    translation = sentence.translation
    if translation is None:
        return sentence
    match = matches.holding(sentence.source, translation.text)
    if match is None:
        return sentence
    flag = check(sentence.source, translation.text)
    return sentence._replace(translation=replace(translation, flag=flag, confidence=None), match=match.memory)
