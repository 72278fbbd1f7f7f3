"""Vocabularies and sentencepiece models beside a CTranslate2 model, as a Marian tokenizer of transformers.

A Marian tokenizer cuts text with sentencepiece, looks pieces up in a vocabulary, and ends every source with the end
token. Knows files of tokens; nothing of weights.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import sentencepiece

from lacuna.errors import ModelError
from lacuna.files import write_json
from lacuna.records import Languages


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokens of both sides and the special ones among them, by target number.

    :param source: Tokens in the order of their numbers; as many as ``target`` where sides are separate.
    :param start: The number of the token that every translation starts with.
    :param rows: How many tokens each side had before any was added: source, target.
    """

    source: list[str]
    target: list[str]
    unknown: str
    end: str
    pad: str
    start: int
    rows: tuple[int, int]

    @property
    def end_id(self) -> int:
        """The number of the end token."""
        return self.target.index(self.end)

    @property
    def pad_id(self) -> int:
        """The number of the token that fills up batches."""
        return self.target.index(self.pad)


def read_vocabulary(folder: Path, settings: Mapping[str, object], *, zero_start: bool) -> Vocabulary:
    """Read the vocabularies and settle the special tokens.

    :param settings: The model's config.json.
    :param zero_start: Whether translations start from a zero vector instead of a token, as Marian's do: then a token
        is added for it, as transformers has it.
    """
    shared = _tokens(folder, "shared")
    source, target = (shared, shared) if shared else (_tokens(folder, "source"), _tokens(folder, "target"))
    if not source or not target:
        raise ModelError(f"{folder}: has no vocabulary (shared_vocabulary.json, or source_ and target_); copy it there")
    unknown, end = (str(settings.get(f"{what}_token") or usual) for what, usual in (("unk", "<unk>"), ("eos", "</s>")))
    for token in (unknown, end):
        if any(token not in side for side in (source, target)):
            raise ModelError(f"{folder}: its vocabulary has no {token}; it does not belong to the model")
    if source.index(end) != target.index(end):
        raise ModelError(f"{folder}: {end} has two numbers, one for each side, which Marian cannot express")
    rows = (len(source), len(target))
    pad = next((token for token in ("<pad>", "<blank>") if _same_place(token, source, target)), None)
    if zero_start or pad is None:
        pad = "<pad>" if "<pad>" not in {*source, *target} else "<start>"
        source, target = _add_token(pad, source, target)
    start_token = pad if zero_start else str(settings.get("decoder_start_token") or "<s>")
    if start_token not in target:
        raise ModelError(f"{folder}: translations start with {start_token}, which its vocabulary does not have")
    return Vocabulary(source, target, unknown, end, pad, target.index(start_token), rows)


def find_pieces(*folders: Path) -> tuple[Path, Path]:
    """Find the sentencepiece models of both sides, and see that they load."""
    for folder in folders:
        for names in (("source.spm", "target.spm"), ("sentencepiece.model", "sentencepiece.model")):
            found = (folder / names[0], folder / names[1])
            if all(path.is_file() for path in found):
                return found
    raise ModelError(
        f"{folders[0]}: has no sentencepiece models; copy source.spm and target.spm of the original model there, "
        "or one sentencepiece.model for both sides"
    )


def write_tokenizer(
    folder: Path,
    vocabulary: Vocabulary,
    pieces: tuple[Path, Path],
    languages: Languages | None,
    max_length: int,
) -> None:
    """Write the files of a Marian tokenizer."""
    separate = vocabulary.source != vocabulary.target
    for path, name, tokens in zip(pieces, ("source", "target"), (vocabulary.source, vocabulary.target), strict=True):
        _check_pieces(path, set(tokens))
        shutil.copyfile(path, folder / f"{name}.spm")
    write_json(folder / "vocab.json", {token: number for number, token in enumerate(vocabulary.source)})
    if separate:
        write_json(folder / "target_vocab.json", {token: number for number, token in enumerate(vocabulary.target)})
    direction = {} if languages is None else {"source_lang": languages.source, "target_lang": languages.target}
    settings = {
        "unk_token": vocabulary.unknown,
        "eos_token": vocabulary.end,
        "pad_token": vocabulary.pad,
        "separate_vocabs": separate,
        "model_max_length": max_length,
        "tokenizer_class": "MarianTokenizer",
    }
    write_json(folder / "tokenizer_config.json", settings | direction)


def _tokens(folder: Path, side: str) -> list[str]:
    """Read one vocabulary: a JSON list, or in older models a token in each line; nothing where there is none."""
    path = folder / f"{side}_vocabulary.json"
    old = path.with_suffix(".txt")
    try:
        if path.is_file():
            tokens = json.loads(path.read_text(encoding="utf-8"))
        else:
            tokens = old.read_text(encoding="utf-8").removesuffix("\n").split("\n") if old.is_file() else []
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read ({error}); copy or download it again") from error
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise ModelError(f"{path}: is no list of tokens; it is damaged, or another file")
    if len(set(tokens)) != len(tokens):
        raise ModelError(f"{path}: has a token twice, which Marian cannot number")
    return tokens


def _same_place(token: str, source: list[str], target: list[str]) -> bool:
    return token in source and token in target and source.index(token) == target.index(token)


def _add_token(token: str, source: list[str], target: list[str]) -> tuple[list[str], list[str]]:
    """Add a token to both sides under one number, filling up the shorter side."""
    number = max(len(source), len(target))
    filled = [[*side, *(f"<spare{n}>" for n in range(len(side), number)), token] for side in (source, target)]
    return filled[0], filled[1]


def _check_pieces(path: Path, tokens: set[str]) -> None:
    try:
        model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    except (OSError, RuntimeError, TypeError) as error:
        raise ModelError(f"{path}: is no sentencepiece model; copy or download it again") from error
    known = sum(model.id_to_piece(number) in tokens for number in range(len(model)))
    if known * 2 < len(model):
        raise ModelError(
            f"{path}: only {known} of its {len(model)} pieces are in the model's vocabulary; it is another model's"
        )
