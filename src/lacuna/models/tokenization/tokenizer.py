"""The tokenization of one model: text to ids and back for each side, and the files it is kept in.

All of it is data: word splitter and languages by name, BPE codes, vocabularies, jieba's dictionary. Knows nothing of
transformers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizer

from lacuna.errors import ModelError, SettingError
from lacuna.files import atomic_path
from lacuna.models.directions import short_code
from lacuna.models.tokenization.bpe import Subwords, put_together
from lacuna.models.tokenization.chinese import JiebaWords
from lacuna.models.tokenization.moses import MosesWords
from lacuna.models.tokenization.spacing import Words
from lacuna.records import Languages

END = "</s>"
UNKNOWN = "<unk>"
PAD = "<pad>"
WORDS_FILE = "words.json"
DICTIONARY_FILE = "jieba.txt"
JOINT, SEPARATE = "joint", "separate"
FORMAT = 1
_REMEMBERED = 2**18
_UNSPACED = {"ja", "th", "km", "lo", "my"}


def splitter_of(language: str) -> str:
    """Name the word splitter of a language: ``jieba`` for Chinese, ``moses`` where words are spaced."""
    short = short_code(language)
    if short in _UNSPACED:
        raise SettingError(
            f"tokenization: got bpe for {language}, whose words are not spaced and which has no word splitter here; "
            "allowed is sentencepiece"
        )
    return "jieba" if short == "zh" else "moses"


def make_words(language: str, dictionary: bytes | None) -> Words:
    """Make the word splitter of a language; Chinese needs jieba's dictionary."""
    if splitter_of(language) == "moses":
        return MosesWords(short_code(language) or language)
    if dictionary is None:
        raise ModelError(f"{DICTIONARY_FILE} is missing, jieba's dictionary; copy the model again")
    return JiebaWords(dictionary)


def describe(languages: Languages, vocabularies: str) -> dict[str, Any]:
    """Return what the file of words says."""
    return {
        "format": FORMAT,
        "languages": [languages.source, languages.target],
        "splitters": [splitter_of(languages.source), splitter_of(languages.target)],
        "vocabularies": vocabularies,
    }


def side_files(vocabularies: str) -> list[tuple[str, str]]:
    """Return the files of codes and vocabulary, of the source and of the target; the same where they are joint."""
    if vocabularies == JOINT:
        return [("bpe.codes", "vocab.json")] * 2
    return [("source.codes", "source.vocab.json"), ("target.codes", "target.vocab.json")]


class Side:
    """One language of a model: its words, its subwords and their ids."""

    def __init__(self, words: Words, subwords: Subwords, ids: dict[str, int]) -> None:
        self._words, self._subwords, self.ids = words, subwords, ids
        self._unknown = ids[UNKNOWN]
        self._word_ids = lru_cache(_REMEMBERED)(self._word_ids_anew)

    def pieces(self, text: str) -> list[str]:
        """Cut a text into pieces."""
        return [piece for word in self._words.split(text) for piece in self._subwords.cut(word)]

    def encode(self, text: str) -> list[int]:
        """Turn a text into ids, without the end."""
        return [number for word in self._words.split(text) for number in self._word_ids(word)]

    def text(self, pieces: Iterable[str]) -> str:
        """Undo :meth:`pieces`."""
        return self._words.join(put_together(pieces))

    def _word_ids_anew(self, word: str) -> tuple[int, ...]:
        return tuple(self.ids.get(piece, self._unknown) for piece in self._subwords.cut(word))


class WordPieces:
    """The tokenization of one model.

    :param files: The content of each file by its name. They may come from anywhere, so every one is checked.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)
        self.languages, self.vocabularies = _read_description(self.files)
        names = side_files(self.vocabularies)
        dictionary = self.files.get(DICTIONARY_FILE)
        parts = {pair: (Subwords(_text(self.files, pair[0])), _read_ids(self.files, pair[1])) for pair in set(names)}
        self.source, self.target = (
            Side(make_words(language, dictionary), *parts[pair])
            for language, pair in zip((self.languages.source, self.languages.target), names, strict=True)
        )
        self.end_id, self.pad_id = self.target.ids[END], self.target.ids[PAD]
        if self.source.ids[PAD] != self.pad_id:
            raise ModelError(f"vocabularies: {PAD} has another number on each side; copy the model again")
        self.size = self.pad_id + 1

    def __reduce__(self) -> tuple[type[WordPieces], tuple[dict[str, bytes]]]:
        return type(self), (self.files,)

    @property
    def tables(self) -> tuple[dict[str, int], ...]:
        """The ids of each vocabulary: one, or source and target."""
        return (self.target.ids,) if self.vocabularies == JOINT else (self.source.ids, self.target.ids)

    def encode_sources(self, texts: Sequence[str]) -> list[list[int]]:
        """Turn source texts into ids, each with its end."""
        return [[*self.source.encode(text), self.end_id] for text in texts]

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Turn target texts into ids, each with its end."""
        return [[*self.target.encode(text), self.end_id] for text in texts]


def read_files(read: Callable[[str], bytes | None]) -> dict[str, bytes]:
    """Read the files that the file of words asks for.

    :param read: Gives the content of a file, or ``None`` where there is none.
    """
    files: dict[str, bytes] = {}

    def take(name: str) -> None:
        content = read(name)
        if content is None:
            raise ModelError(f"{name} is missing, a part of the tokenization; copy the model again")
        files[name] = content

    take(WORDS_FILE)
    languages, vocabularies = _read_description(files)
    for name in dict.fromkeys(name for pair in side_files(vocabularies) for name in pair):
        take(name)
    if "jieba" in map(splitter_of, (languages.source, languages.target)):
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
            raise ModelError(f"{WORDS_FILE}: names no two languages, or no kind of vocabularies; copy the model again")
    try:
        expected = describe(direction, vocabularies)
    except SettingError as error:
        raise ModelError(f"{WORDS_FILE}: {error}") from error
    if content.get("splitters") != expected["splitters"]:
        raise ModelError(
            f"{WORDS_FILE}: got splitters {content.get('splitters')}; "
            f"this version of Lacuna has {expected['splitters']} for {direction}"
        )
    return direction, vocabularies


def _read_ids(files: Mapping[str, bytes], name: str) -> dict[str, int]:
    """Read a vocabulary: the end first, then the unknown, the filler last, and no number twice."""
    ids = _json(files, name)
    numbers = list(ids.values())
    sound = (
        all(type(number) is int and number >= 0 for number in numbers)
        and len(set(numbers)) == len(numbers)
        and (ids.get(END), ids.get(UNKNOWN), ids.get(PAD)) == (0, 1, max(numbers, default=0))
    )
    if not sound:
        raise ModelError(
            f"{name}: not a vocabulary, which numbers each piece: {END} 0, {UNKNOWN} 1, {PAD} last; "
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


class WordTokenizer(PreTrainedTokenizer):
    """Words, then subwords, for source and target.

    Ids are those of the target wherever transformers does not say which side it means: a model gives target ids.
    """

    vocab_files_names = {"words_file": WORDS_FILE}  # noqa: RUF012 - transformers' own
    model_input_names = ["input_ids", "attention_mask"]  # noqa: RUF012
    supported_language_codes: Sequence[str] = ()

    def __init__(self, pieces: WordPieces) -> None:
        self.word_pieces = pieces
        self.source_lang, self.target_lang = pieces.languages.source, pieces.languages.target
        self._of_target = {number: piece for piece, number in pieces.target.ids.items()}
        self._switch_to_input_mode()
        # Text is text: a "</s>" or "<pad>" in a user's sentence must not end or blank it.
        super().__init__(  # type: ignore[no-untyped-call]
            eos_token=END,
            unk_token=UNKNOWN,
            pad_token=PAD,
            special_tokens_pattern="eos",
            split_special_tokens=True,
            clean_up_tokenization_spaces=False,
        )

    @property
    def vocab_size(self) -> int:
        """Rows that a model needs on either side."""
        return self.word_pieces.size

    def get_vocab(self) -> dict[str, int]:
        """Return the ids of the target's pieces."""
        return dict(self.word_pieces.target.ids)

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Turn target texts into ids without the end; unlike ``text_target=`` it is safe with several threads."""
        return [self.word_pieces.target.encode(text) for text in texts]

    def convert_tokens_to_string(self, tokens: Sequence[str | None]) -> str:
        """Put target pieces together; numbers without a piece are left out."""
        return self.word_pieces.target.text(piece for piece in tokens if piece is not None)

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str, ...]:
        """Write every file of the tokenization, byte for byte as it was read; prefixes are not supported."""
        paths = [Path(save_directory) / name for name in self.word_pieces.files]
        for path in paths:
            with atomic_path(path) as temporary:
                temporary.write_bytes(self.word_pieces.files[path.name])
        return tuple(map(str, paths))

    def _tokenize(self, text: str, **_: Any) -> list[str]:  # noqa: ANN401 - transformers' own
        return self._side().pieces(text)

    def _convert_token_to_id(self, token: str) -> int:
        ids = self._side().ids
        return ids.get(token, ids[UNKNOWN])

    def _convert_id_to_token(self, index: int) -> str | None:  # type: ignore[override]  # as other tokenizers do
        return self._of_target.get(index)

    def _side(self) -> Side:
        return self.word_pieces.target if self._in_target_mode else self.word_pieces.source

    def _switch_to_input_mode(self) -> None:
        self._in_target_mode = False

    def _switch_to_target_mode(self) -> None:
        self._in_target_mode = True
