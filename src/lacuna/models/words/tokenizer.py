"""The tokenization as a Hugging Face tokenizer, which the rest of Lacuna and of transformers knows how to use.

It is made from data only; ``AutoTokenizer`` does not know it, :func:`lacuna.load_model` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizer

from lacuna.files import atomic_path
from lacuna.models.words.pieces import END, PAD, UNKNOWN, WORDS_FILE, Side, WordPieces


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
