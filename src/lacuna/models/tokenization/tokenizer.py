"""Tokenization of models trained with ``--tokenization bpe``: text to token ids and back, and its files.

All of it is data: word splitters and languages by name, BPE codes, vocabularies, jieba's dictionary. Knows nothing of
networks.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from lacuna.errors import ModelError, SettingError
from lacuna.models.tokenization.bpe import END, PAD, UNKNOWN, Bpe, join_pieces, learn_vocabulary
from lacuna.models.tokenization.splitters import WordSplitter, jieba_dictionary, make_splitter, splitter_name
from lacuna.records import Languages, SentencePair

WORDS_FILE = "words.json"
DICTIONARY_FILE = "jieba.txt"
JOINT, SEPARATE = "joint", "separate"
FORMAT = 1
_CACHED = 2**18


def _describe(languages: Languages, vocabularies: str) -> dict[str, Any]:
    """Return the content of ``words.json``."""
    return {
        "format": FORMAT,
        "languages": [languages.source, languages.target],
        "splitters": [splitter_name(languages.source), splitter_name(languages.target)],
        "vocabularies": vocabularies,
    }


def _side_files(vocabularies: str) -> list[tuple[str, str]]:
    """Return the files of BPE codes and vocabulary for source and target; the same for both if joint."""
    if vocabularies == JOINT:
        return [("bpe.codes", "vocab.json")] * 2
    return [("source.codes", "source.vocab.json"), ("target.codes", "target.vocab.json")]


class SideTokenizer:
    """Tokenizer of one side: word splitter, BPE and token ids."""

    def __init__(self, splitter: WordSplitter, bpe: Bpe, ids: dict[str, int]) -> None:
        self._splitter, self._bpe, self.ids = splitter, bpe, ids
        self._unknown = ids[UNKNOWN]
        self._word_ids = lru_cache(_CACHED)(self._word_ids_uncached)

    def pieces(self, text: str) -> list[str]:
        """Split a text into pieces."""
        return [piece for word in self._splitter.split(text) for piece in self._bpe.split(word)]

    def encode(self, text: str) -> list[int]:
        """Turn a text into token ids, without the end token."""
        return [number for word in self._splitter.split(text) for number in self._word_ids(word)]

    def text(self, pieces: Iterable[str]) -> str:
        """Undo :meth:`pieces`."""
        return self._splitter.join(join_pieces(pieces))

    def _word_ids_uncached(self, word: str) -> tuple[int, ...]:
        return tuple(self.ids.get(piece, self._unknown) for piece in self._bpe.split(word))


class WordBpe:
    """Words and BPE of one model, for both sides.

    :param files: Content of each file by name. They may come from anywhere, so each is checked.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)
        self.languages, self.vocabularies = _read_description(self.files)
        names = _side_files(self.vocabularies)
        dictionary = self.files.get(DICTIONARY_FILE)
        parts = {pair: (Bpe(_text(self.files, pair[0])), _read_ids(self.files, pair[1])) for pair in set(names)}
        self.source, self.target = (
            SideTokenizer(make_splitter(language, dictionary), *parts[pair])
            for language, pair in zip((self.languages.source, self.languages.target), names, strict=True)
        )
        self.end_id, self.pad_id = self.target.ids[END], self.target.ids[PAD]
        if self.source.ids[PAD] != self.pad_id:
            raise ModelError(f"vocabularies: {PAD} has a different id on each side; copy the model again")
        self.size = self.pad_id + 1

    def __reduce__(self) -> tuple[type[WordBpe], tuple[dict[str, bytes]]]:
        return type(self), (self.files,)

    @property
    def tables(self) -> tuple[dict[str, int], ...]:
        """Token ids: one table for both sides, or source and target."""
        return (self.target.ids,) if self.vocabularies == JOINT else (self.source.ids, self.target.ids)

    def encode_sources(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode source texts, each with its end token."""
        return [[*self.source.encode(text), self.end_id] for text in texts]

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode target texts, each with its end token."""
        return [[*self.target.encode(text), self.end_id] for text in texts]


def read_files(read: Callable[[str], bytes | None]) -> dict[str, bytes]:
    """Read ``words.json`` and the files it requires.

    :param read: Returns the content of a file, or ``None`` if there is none.
    """
    files: dict[str, bytes] = {}

    def take(name: str) -> None:
        content = read(name)
        if content is None:
            raise ModelError(f"{name} is missing, which the tokenization needs; copy the model again")
        files[name] = content

    take(WORDS_FILE)
    languages, vocabularies = _read_description(files)
    for name in dict.fromkeys(name for pair in _side_files(vocabularies) for name in pair):
        take(name)
    if "jieba" in map(splitter_name, (languages.source, languages.target)):
        take(DICTIONARY_FILE)
    return files


def _read_description(files: Mapping[str, bytes]) -> tuple[Languages, str]:
    content = _json(files, WORDS_FILE)
    if content.get("format") != FORMAT:
        raise ModelError(
            f"{WORDS_FILE}: got format {content.get('format')!r}; this version of Lacuna reads {FORMAT}, use another"
        )
    languages, vocabularies = content.get("languages"), content.get("vocabularies")
    match languages:
        case [str(), str()] if vocabularies in (JOINT, SEPARATE):
            direction = Languages(*languages)
        case _:
            raise ModelError(f"{WORDS_FILE}: does not name two languages and joint or separate; copy the model again")
    try:
        expected = _describe(direction, vocabularies)
    except SettingError as error:
        raise ModelError(f"{WORDS_FILE}: {error}") from error
    if content.get("splitters") != expected["splitters"]:
        raise ModelError(
            f"{WORDS_FILE}: got splitters {content.get('splitters')}; "
            f"this version of Lacuna has {expected['splitters']} for {direction}"
        )
    return direction, vocabularies


def _read_ids(files: Mapping[str, bytes], name: str) -> dict[str, int]:
    """Read a vocabulary: end token first, then unknown, padding last, and no id twice."""
    ids = _json(files, name)
    numbers = list(ids.values())
    sound = (
        all(type(number) is int and number >= 0 for number in numbers)
        and len(set(numbers)) == len(numbers)
        and (ids.get(END), ids.get(UNKNOWN), ids.get(PAD)) == (0, 1, max(numbers, default=0))
    )
    if not sound:
        raise ModelError(
            f"{name}: not a vocabulary, where each piece has an id: {END} 0, {UNKNOWN} 1, {PAD} last; "
            "copy the model again"
        )
    return ids


def _json(files: Mapping[str, bytes], name: str) -> dict[str, Any]:
    try:
        content = json.loads(_text(files, name))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{name}: cannot be read as JSON; copy the model again") from error
    if not isinstance(content, dict):
        raise ModelError(f"{name}: got {type(content).__name__} where an object is needed; copy the model again")
    return content


def _text(files: Mapping[str, bytes], name: str) -> str:
    try:
        return files[name].decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelError(f"{name}: is not UTF-8 text; copy the model again") from error


def learn_tokenization(
    pairs: Iterable[SentencePair], size: int, languages: Languages, vocabularies: str
) -> dict[str, bytes]:
    """Learn a tokenization from pairs and return the content of its files.

    :param size: Maximum number of pieces of each vocabulary, without the padding token.
    """
    dictionary = jieba_dictionary() if "jieba" in map(splitter_name, (languages.source, languages.target)) else None
    source, target = _count_words(pairs, languages, dictionary)
    counts = [source + target] if vocabularies == JOINT else [source, target]
    learned = [learn_vocabulary(each, size) for each in counts]
    # The padding token has the same id on both sides; the smaller vocabulary leaves some ids before it unused.
    pad_id = max(len(pieces) for _, pieces in learned)
    files = {WORDS_FILE: _as_json(_describe(languages, vocabularies))}
    for (codes_file, ids_file), (codes, pieces) in zip(_side_files(vocabularies), learned, strict=False):
        files[codes_file] = codes.encode()
        files[ids_file] = _as_json({piece: number for number, piece in enumerate(pieces)} | {PAD: pad_id})
    return files if dictionary is None else files | {DICTIONARY_FILE: dictionary}


def _count_words(
    pairs: Iterable[SentencePair], languages: Languages, dictionary: bytes | None
) -> tuple[Counter[str], Counter[str]]:
    source, target = (make_splitter(language, dictionary) for language in (languages.source, languages.target))
    counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for pair in pairs:
        counts[0].update(source.split(pair.source))
        counts[1].update(target.split(pair.target))
    return counts


def _as_json(content: Mapping[str, object]) -> bytes:
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()
