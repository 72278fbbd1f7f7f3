"""The tokenizer of words and BPE as transformers knows tokenizers. Knows nothing of networks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizer

from lacuna.artifacts.files import atomic_path
from lacuna.models.tokenization.bpe import END, PAD, UNKNOWN
from lacuna.models.tokenization.tokenizer import WORDS_FILE, SideTokenizer, WordBpe


class WordTokenizer(PreTrainedTokenizer):
    """:class:`WordBpe` as a tokenizer of transformers.

    Where transformers does not say which side it means, ids are those of the target: they are a model's output.
    """

    vocab_files_names = {"words_file": WORDS_FILE}  # noqa: RUF012 - transformers' own
    model_input_names = ["input_ids", "attention_mask"]  # noqa: RUF012
    supported_language_codes: Sequence[str] = ()

    def __init__(self, tokenization: WordBpe) -> None:
        self.word_bpe = tokenization
        languages = tokenization.languages
        self.source_lang, self.target_lang = languages.source, languages.target
        self._of_target = {number: piece for piece, number in tokenization.target.ids.items()}
        self._switch_to_input_mode()
        # A "</s>" or "<pad>" in a user's sentence is text, not a control token.
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
        """Rows of an embedding, the same for both sides."""
        return self.word_bpe.size

    def get_vocab(self) -> dict[str, int]:
        """Return the token ids of the target."""
        return dict(self.word_bpe.target.ids)

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode target texts without end tokens; unlike ``text_target=``, this is thread-safe."""
        return [self.word_bpe.target.encode(text) for text in texts]

    def convert_tokens_to_string(self, tokens: Sequence[str | None]) -> str:
        """Join target pieces into text; ids without a piece are left out."""
        return self.word_bpe.target.text(piece for piece in tokens if piece is not None)

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str, ...]:
        """Write every file of the tokenization, byte for byte as it was read; prefixes are not supported."""
        paths = [Path(save_directory) / name for name in self.word_bpe.files]
        for path in paths:
            with atomic_path(path) as temporary:
                temporary.write_bytes(self.word_bpe.files[path.name])
        return tuple(map(str, paths))

    def _tokenize(self, text: str, **_: Any) -> list[str]:  # noqa: ANN401 - transformers' own
        return self._side().pieces(text)

    def _convert_token_to_id(self, token: str) -> int:
        ids = self._side().ids
        return ids.get(token, ids[UNKNOWN])

    def _convert_id_to_token(self, index: int) -> str | None:  # type: ignore[override]  # as other tokenizers do
        return self._of_target.get(index)

    def _side(self) -> SideTokenizer:
        return self.word_bpe.target if self._in_target_mode else self.word_bpe.source

    def _switch_to_input_mode(self) -> None:
        self._in_target_mode = False

    def _switch_to_target_mode(self) -> None:
        self._in_target_mode = True
