"""Vocabularies of models trained from scratch: sentencepiece, or words and BPE.

The sentencepiece vocabulary serves both languages and has the format of Hugging Face's Marian tokenizer. Single bytes
are pieces too, so no character is ever unknown. Words and BPE are in :mod:`lacuna.models.tokenization`.
"""

from __future__ import annotations

import io
import json
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import sentencepiece

from lacuna.artifacts.files import atomic_path, write_json
from lacuna.errors import TrainingError
from lacuna.models.tokenization.bpe import END, PAD, require_bpe
from lacuna.models.tokenization.splitters import require_splitter
from lacuna.models.tokenization.tokenizer import JOINT, WORDS_FILE, WordBpe, learn_tokenization, read_files
from lacuna.models.training.data import TextEncoder
from lacuna.models.training.settings import TrainSettings
from lacuna.records import Languages, SentencePair

FILES = ("source.spm", "target.spm", "vocab.json", "tokenizer_config.json")
_SAMPLE_SENTENCES = 300_000
_Item = TypeVar("_Item")


class Vocabulary(TextEncoder, Protocol):
    """A vocabulary for training.

    :param size: Rows of an embedding, the same for both sides.
    """

    size: int
    end_id: int
    pad_id: int

    @property
    def tables(self) -> tuple[dict[str, int], ...]:
        """Token ids: one table for both sides, or source and target."""


def prepare_vocabulary(
    pairs: Iterable[SentencePair], languages: Languages, settings: TrainSettings
) -> Callable[[Path], Vocabulary]:
    """Read all pairs; return a function that learns a vocabulary from a sample of them and writes it to a folder."""
    size, seed = settings.shape.vocabulary, settings.seed
    if settings.tokenization == "bpe":
        sampled = sample(pairs, _SAMPLE_SENTENCES // 2, seed)
        return lambda folder: _write_words(learn_tokenization(sampled, size, languages, settings.vocabularies), folder)
    sentences = sample_sentences(pairs, _SAMPLE_SENTENCES, seed)

    def learn(folder: Path) -> Vocabulary:
        train_vocabulary(sentences, size, languages, folder)
        return Pieces(folder)

    return learn


def open_vocabulary(folder: Path) -> Vocabulary | None:
    """Return the vocabulary of a model folder, or ``None`` if it has none or an incomplete one."""
    if (folder / WORDS_FILE).exists():
        return _read_words(folder)
    return Pieces(folder) if all((folder / name).exists() for name in FILES) else None


def read_tables(folder: Path) -> tuple[dict[str, int], ...]:
    """Return the token ids of a Marian folder: one table for both sides, or source and target."""
    if (folder / WORDS_FILE).exists():
        return _read_words(folder).tables
    return (json.loads((folder / "vocab.json").read_text(encoding="utf-8")),)


def check_tokenization(languages: Languages, settings: TrainSettings, folder: Path) -> None:
    """Refuse a tokenization that is not available for the languages, or that the model in ``folder`` does not have."""
    if settings.tokenization == "bpe":
        for language in (languages.source, languages.target):
            require_splitter(language)
        require_bpe()
    vocabulary = open_vocabulary(folder) if (folder / "config.json").exists() else None
    if vocabulary is not None:
        kind, vocabularies = "sentencepiece", JOINT
        if isinstance(vocabulary, WordBpe):
            kind, vocabularies = "bpe", vocabulary.vocabularies
        if (kind, vocabularies) != (settings.tokenization, settings.vocabularies):
            raise TrainingError(
                f"{folder}: got tokenization {settings.tokenization} with {settings.vocabularies} vocabularies, but "
                f"this model has {kind} with {vocabularies} ones; add `tokenization` {kind} and "
                f"`vocabularies` {vocabularies}"
            )


def sample(items: Iterable[_Item], size: int, seed: int) -> list[_Item]:
    """Draw a uniform sample from a stream (reservoir sampling)."""
    rng = np.random.default_rng(seed)
    kept: list[_Item] = []
    for number, item in enumerate(items):
        if number < size:
            kept.append(item)
        else:
            index = int(rng.integers(number + 1))
            if index < size:
                kept[index] = item
    return kept


def sample_sentences(pairs: Iterable[SentencePair], size: int, seed: int) -> list[str]:
    """Draw a uniform sample of the sentences of both sides."""
    return sample(_sides(pairs), size, seed)


def train_vocabulary(sentences: Iterable[str], size: int, languages: Languages, folder: Path) -> None:
    """Train the vocabulary and write the four tokenizer files into ``folder``."""
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            vocab_size=size,
            model_type="unigram",
            character_coverage=0.9995,
            byte_fallback=True,
            required_chars=string.printable.strip(),  # for placeholders and paths, which are rare in general text
            split_digits=True,
            bos_id=-1,
            pad_id=-1,
            eos_id=0,
            unk_id=1,
            num_threads=1,  # the result must not depend on the number of cores
            minloglevel=2,
        )
    except RuntimeError as error:
        raise TrainingError(
            f"vocabulary of {size:,} pieces: the corpus is too small for it ({str(error).strip()[-120:]}); "
            "give more text, or a smaller vocabulary in the settings file"
        ) from error
    content = model.getvalue()
    for name in ("source.spm", "target.spm"):
        with atomic_path(folder / name) as temporary:
            temporary.write_bytes(content)
    pieces = sentencepiece.SentencePieceProcessor(model_proto=content)
    ids = {pieces.id_to_piece(number): number for number in range(pieces.vocab_size())}
    ids[PAD] = len(ids)
    write_json(folder / "vocab.json", ids)
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "MarianTokenizer",
            "source_lang": languages.source,
            "target_lang": languages.target,
            "model_max_length": 512,
            "separate_vocabs": False,
        },
    )


class Pieces:
    """A sentencepiece vocabulary for both sides."""

    def __init__(self, folder: Path) -> None:
        self._pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
        self.ids: dict[str, int] = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
        self.end_id, self.pad_id = self.ids[END], self.ids[PAD]
        if self._pieces.vocab_size() != len(self.ids) - 1 or self._pieces.eos_id() != self.end_id:
            raise TrainingError(f"{folder}: its vocabulary is not one of `lacuna train`; train into another folder")
        self.size = len(self.ids)

    @property
    def tables(self) -> tuple[dict[str, int]]:
        """Token ids of both sides."""
        return (self.ids,)

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Encode sentences of either side, each with its end token."""
        encoded: list[list[int]] = self._pieces.encode(list(sentences), add_eos=True)
        return encoded

    encode_sources = encode_targets = encode


def _write_words(files: dict[str, bytes], folder: Path) -> WordBpe:
    """Write a tokenization. ``words.json`` comes last: it marks the tokenization as complete."""
    for name in sorted(files, key=lambda name: name == WORDS_FILE):
        with atomic_path(folder / name) as temporary:
            temporary.write_bytes(files[name])
    return WordBpe(files)


def _read_words(folder: Path) -> WordBpe:
    return WordBpe(read_files(lambda name: (folder / name).read_bytes() if (folder / name).is_file() else None))


def _sides(pairs: Iterable[SentencePair]) -> Iterator[str]:
    for pair in pairs:
        yield pair.source
        yield pair.target
