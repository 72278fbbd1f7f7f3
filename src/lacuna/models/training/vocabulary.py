"""One sentencepiece vocabulary for both languages, laid out as Hugging Face's Marian tokenizer expects it.

Knows nothing of models. Single bytes are pieces too, so no character of a user's domain is ever unknown.
"""

from __future__ import annotations

import io
import json
import string
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import sentencepiece

from lacuna.errors import TrainingError
from lacuna.files import atomic_path, write_json
from lacuna.records import Languages, SentencePair

END = "</s>"
UNKNOWN = "<unk>"
PAD = "<pad>"
FILES = ("source.spm", "target.spm", "vocab.json", "tokenizer_config.json")


def sample_sentences(pairs: Iterable[SentencePair], size: int, seed: int) -> list[str]:
    """Draw a uniform sample of sentences, source and target alike, from a stream (reservoir sampling)."""
    rng = np.random.default_rng(seed)
    kept: list[str] = []
    for number, sentence in enumerate(_sides(pairs)):
        if number < size:
            kept.append(sentence)
        else:
            place = int(rng.integers(number + 1))
            if place < size:
                kept[place] = sentence
    return kept


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
            required_chars=string.printable.strip(),  # placeholders and paths of a domain, rare in general text
            split_digits=True,
            bos_id=-1,
            pad_id=-1,
            eos_id=0,
            unk_id=1,
            num_threads=1,  # the result must not depend on the machine
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
    """The vocabulary as training uses it: text to ids, many sentences at once."""

    def __init__(self, folder: Path) -> None:
        self._pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
        self.ids: dict[str, int] = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
        self.end_id, self.pad_id = self.ids[END], self.ids[PAD]
        if self._pieces.vocab_size() != len(self.ids) - 1 or self._pieces.eos_id() != self.end_id:
            raise TrainingError(f"{folder}: its vocabulary was not made by `lacuna train`; train into another folder")
        self.size = len(self.ids)

    def encode(self, sentences: list[str]) -> list[list[int]]:
        """Turn sentences into ids, each ended by the end-of-sentence piece."""
        encoded: list[list[int]] = self._pieces.encode(sentences, add_eos=True)
        return encoded


def _sides(pairs: Iterable[SentencePair]) -> Iterator[str]:
    for pair in pairs:
        yield pair.source
        yield pair.target
