"""The sentences of a file: lines of text, the sources of a corpus, or the texts of a document."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from lacuna.corpora import BILINGUAL_SUFFIXES, read_corpus
from lacuna.documents.base import INLINE_CODE, DocumentSegment
from lacuna.documents.file_formats import format_of, is_document
from lacuna.documents.paragraphs import Splitter, fitting, is_translatable
from lacuna.errors import CorpusError, SettingError
from lacuna.formats.input_files import content_suffix
from lacuna.models import Model
from lacuna.translator.streaming import open_lines


class PlacedSentence(NamedTuple):
    """A sentence of a file.

    :param place: Its line number, or the id of its unit.
    """

    text: str
    place: str


ReadSentences = Callable[[Model], list[PlacedSentence]]
"""Reads the sentences of a file in the source language of a model."""


def is_plain_text(path: Path) -> bool:
    """Tell whether a file has a sentence or paragraph on each line, by its suffix: neither a document nor a corpus."""
    if is_document(path.name):
        return format_of(path.name).name == "text"
    return content_suffix(path) not in BILINGUAL_SUFFIXES


def open_sentences(path: Path) -> ReadSentences:
    """Open a file of any kind, and return how its sentences are read once the model is known.

    Text is read at once, line by line, so that mistakes are found before slow work.

    :raises CorpusError: The file cannot be read, or has no sentence.
    """
    if is_plain_text(path):
        lines = [PlacedSentence(line, str(number)) for number, line in enumerate(open_lines(path), start=1)]
        _check(path, lines)
        return lambda _: lines
    if not path.is_file():
        raise CorpusError(f"{path}: cannot be read (no such file); name a file with sentences")
    read = _document if is_document(path.name) else _corpus
    return lambda model: _check(path, list(read(path, model)))


def _check(path: Path, sentences: list[PlacedSentence]) -> list[PlacedSentence]:
    if not any(sentence.text.strip() for sentence in sentences):
        raise CorpusError(f"{path}: no sentence in it; write one per line, or name a document or a corpus")
    return sentences


def _corpus(path: Path, model: Model) -> Iterator[PlacedSentence]:
    for pair in read_corpus(path, languages=model.languages):
        yield PlacedSentence(pair.source, pair.origin.place)


def _document(path: Path, model: Model) -> Iterator[PlacedSentence]:
    if model.languages is None:
        raise SettingError("languages: the model does not say which it translates; give languages, such as de-en")
    splitter = Splitter(model.languages, fitting(model))
    with path.open("rb") as file:
        for part in format_of(path.name).parts(file, str(path), model.languages):
            if isinstance(part, DocumentSegment):
                texts = dict.fromkeys(" ".join(INLINE_CODE.sub("", text).split()) for text in part.texts)
                pieces = (piece.text for text in texts for piece in splitter.split(text))
                yield from (PlacedSentence(text, part.place) for text in pieces if is_translatable(text))
