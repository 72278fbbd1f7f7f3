"""The tokenizer of Marian models: sentencepiece for each side, and a vocabulary of pieces.

It gives the ids, tokens and texts of transformers' ``MarianTokenizer`` with ``split_special_tokens``, without importing
transformers, which takes longer than a translation. Knows nothing of networks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from sentencepiece import SentencePieceProcessor

Find = Callable[[str], Path | None]  # the path of a model's file, if it has this file

_BOUNDARY = "▁"
_SPECIAL = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}  # in the order of transformers
# Settings that transformers has and this tokenizer does not.
_UNSUPPORTED = ("additional_special_tokens", "extra_special_tokens", "sp_model_kwargs", "init_inputs", "auto_map")


class PieceTokenizer:
    """Pieces of sentencepiece, with ids from a vocabulary of their own.

    :param source: The sentencepiece model of source texts.
    :param target: The sentencepiece model of translations.
    :param encoder: Ids of the pieces; with ``target_encoder``, those of the source.
    :param target_encoder: Ids of the target's pieces, if they have their own.
    :param special: The tokens for end, unknown and padding, in this order.
    :param added: Tokens that the model's settings add to the vocabulary.
    """

    is_fast = False

    def __init__(
        self,
        source: SentencePieceProcessor,
        target: SentencePieceProcessor,
        encoder: dict[str, int],
        target_encoder: dict[str, int] | None = None,
        *,
        special: tuple[str, str, str],
        added: Mapping[int, str],
        source_lang: str | None = None,
        target_lang: str | None = None,
    ) -> None:
        self.spm_source, self.spm_target = source, target
        self.encoder, self.target_encoder = encoder, target_encoder
        self.separate_vocabs = target_encoder is not None
        self.decoder = {number: piece for piece, number in (target_encoder or encoder).items()}
        self.source_lang, self.target_lang = source_lang, target_lang
        codes = (piece for piece in encoder if piece.startswith(">>") and piece.endswith("<<"))
        self.supported_language_codes = [] if self.separate_vocabs else list(codes)
        self.eos_token, self.unk_token, self.pad_token = special
        self._unknown = encoder[self.unk_token]
        # As in transformers, the ids of these tokens are those of the source, and come before the vocabulary.
        self._added = _add_special({token: number for number, token in added.items()}, encoder, special)
        self._added_tokens = dict(added) | {self._added[token]: token for token in special}
        self._special = dict.fromkeys(special)

    @property
    def all_special_ids(self) -> list[int]:
        """Ids of the tokens for end, unknown and padding."""
        return [self._added[token] for token in self._special]

    @property
    def unk_token_id(self) -> int:
        """Id of the token for unknown pieces."""
        return self._added[self.unk_token]

    def get_vocab(self) -> dict[str, int]:
        """Return the ids of all tokens; with two vocabularies, those of the source."""
        return self.encoder | {token: number for number, token in sorted(self._added_tokens.items())}

    def __call__(self, texts: Sequence[str], **_: object) -> dict[str, list[list[int]]]:
        """Encode source texts, each with its end token; the form of call and result is that of transformers."""
        end = self._added[self.eos_token]
        return {"input_ids": [[*self.convert_tokens_to_ids(self.tokenize(text)), end] for text in texts]}

    def tokenize(self, text: str) -> list[str]:
        """Split a source text into pieces; a language code such as ``>>fr<<`` at its start is one token."""
        end = text.find("<<") + 2 if text.startswith(">>") else 0
        code = [text[:end]] if end > 1 else []
        return [*code, *self.spm_source.encode(text[end:] if code else text, out_type=str)]

    def convert_tokens_to_ids(self, tokens: Iterable[str]) -> list[int]:
        """Return the ids of source tokens."""
        added, vocabulary, unknown = self._added, self.encoder, self._unknown
        return [added[token] if token in added else vocabulary.get(token, unknown) for token in tokens]

    @overload
    def convert_ids_to_tokens(self, ids: int) -> str: ...

    @overload
    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]: ...

    def convert_ids_to_tokens(self, ids: int | Sequence[int]) -> str | list[str]:
        """Return the token of an id, or the tokens of several; ids are those of the target."""
        if not isinstance(ids, int):
            return [self.convert_ids_to_tokens(number) for number in ids]
        token = self._added_tokens.get(ids, self.decoder.get(ids))
        # Transformers asks sentencepiece about the other ids.
        return token if token is not None else str(self.spm_target.IdToPiece(ids)) or self.unk_token

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False, **_: object) -> str:
        """Join target tokens into text; the form of the call is that of transformers.

        :param skip_special_tokens: Leave out the tokens for end, unknown and padding.
        """
        skipped = set(self.all_special_ids) if skip_special_tokens else set()
        text, pieces = "", list[str]()
        for token in self.convert_ids_to_tokens([number for number in ids if number not in skipped]):
            if token in self._special:
                text += f"{self.spm_target.decode_pieces(pieces)}{token} "
                pieces = []
            else:
                pieces.append(token)
        return (text + str(self.spm_target.decode_pieces(pieces))).replace(_BOUNDARY, " ").strip()


def read_piece_tokenizer(find: Find) -> PieceTokenizer | None:
    """Read the tokenizer of a Marian model.

    :param find: Returns the path of a file of the model.
    :returns: ``None`` if files are missing, or if their settings name another tokenizer or ask for more than this one
        can do: transformers then reads them, or says what is wrong.
    """
    source, target, vocabulary = (find(name) for name in ("source.spm", "target.spm", "vocab.json"))
    settings = _read_settings(find)
    special = None if settings is None else _special_tokens(settings)
    if source is None or target is None or vocabulary is None or settings is None or special is None:
        return None
    separate = bool(settings.get("separate_vocabs"))
    target_vocabulary = find("target_vocab.json") if separate else None
    if separate and target_vocabulary is None:
        return None
    models = [path.read_bytes() for path in (source, target)]
    processors = [SentencePieceProcessor(model_proto=each) for each in dict.fromkeys(models)]  # often the same
    return PieceTokenizer(
        processors[0],
        processors[-1],
        _read_json(vocabulary),
        None if target_vocabulary is None else _read_json(target_vocabulary),
        special=special,
        added={int(number): token["content"] for number, token in settings.get("added_tokens_decoder", {}).items()},
        source_lang=settings.get("source_lang"),
        target_lang=settings.get("target_lang"),
    )


def _add_special(added: dict[str, int], encoder: Mapping[str, int], special: Iterable[str]) -> dict[str, int]:
    """Return the added tokens with the special ones; those without an id get the next ones."""
    vocabulary = {**encoder, **added}
    for token in special:
        added[token] = vocabulary.setdefault(token, len(vocabulary))
    return added


def _read_settings(find: Find) -> dict[str, Any] | None:
    """Read the settings that decide about tokens; ``None`` if :class:`PieceTokenizer` does not support all of them."""
    if find("tokenizer.json") is not None or find("added_tokens.json") is not None:
        return None
    try:
        config, settings, special = (
            {} if (path := find(name)) is None else _read_json(path)
            for name in ("config.json", "tokenizer_config.json", "special_tokens_map.json")
        )
    except ValueError:
        return None
    if "added_tokens_decoder" not in settings:  # the older form
        settings |= special
    own = settings.get("tokenizer_class") or config.get("tokenizer_class") or "MarianTokenizer"
    others = (name for name in settings if name.endswith("_token") and name not in _SPECIAL)
    odd = [name for name in (*others, *_UNSUPPORTED) if settings.get(name)]
    return settings if own == "MarianTokenizer" and not odd else None


def _special_tokens(settings: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Return the tokens for end, unknown and padding, which transformers writes as strings or as objects."""
    match [settings.get(name, token) for name, token in _SPECIAL.items()]:
        case [
            str(end) | {"content": str(end)},
            str(unknown) | {"content": str(unknown)},
            str(padding) | {"content": str(padding)},
        ]:
            return end, unknown, padding
    return None


def _read_json(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise ValueError(f"{path.name}: got {type(content).__name__} where an object is needed")
    return content
