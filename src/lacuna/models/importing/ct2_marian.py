"""Convert the tokenizer files and weights of a CTranslate2 model to Marian.

A Marian tokenizer splits text with sentencepiece, maps pieces to ids, and ends every source with the end token.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import torch
from numpy.typing import NDArray
from transformers import MarianConfig

from lacuna.artifacts.files import write_json
from lacuna.errors import ModelError
from lacuna.models.importing.ct2_file import Variables
from lacuna.models.importing.target_pieces import covers_target, rebuild_target_pieces
from lacuna.records import Languages


@dataclass(frozen=True, slots=True)
class Ct2Vocabulary:
    """Tokens of both sides, and the special ones among them.

    :param source: Tokens in the order of their ids; the same number as ``target`` if sides are separate.
    :param start: Id of the token that every translation starts with.
    :param rows: Number of tokens before any was added: source, target.
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
        """Id of the end token."""
        return self.target.index(self.end)

    @property
    def pad_id(self) -> int:
        """Id of the padding token."""
        return self.target.index(self.pad)


def read_vocabulary(folder: Path, settings: Mapping[str, object], *, zero_start: bool) -> Ct2Vocabulary:
    """Read the vocabularies and determine the special tokens.

    :param settings: The model's config.json.
    :param zero_start: Whether translations start from a zero vector instead of a token, as in Marian; then a token is
        added for it, as in transformers.
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
        raise ModelError(f"{folder}: {end} has a different id on each side, which Marian cannot express")
    rows = (len(source), len(target))
    pad = next((token for token in ("<pad>", "<blank>") if _same_place(token, source, target)), None)
    if zero_start or pad is None:
        pad = "<pad>" if "<pad>" not in {*source, *target} else "<start>"
        source, target = _add_token(pad, source, target)
    start_token = pad if zero_start else str(settings.get("decoder_start_token") or "<s>")
    if start_token not in target:
        raise ModelError(f"{folder}: translations start with {start_token}, which its vocabulary does not have")
    return Ct2Vocabulary(source, target, unknown, end, pad, target.index(start_token), rows)


def find_pieces(*folders: Path) -> tuple[Path, Path]:
    """Find the sentencepiece models of both sides."""
    for folder in folders:
        for names in (("source.spm", "target.spm"), ("sentencepiece.model", "sentencepiece.model")):
            paths = (folder / names[0], folder / names[1])
            if all(path.is_file() for path in paths):
                return paths
    raise ModelError(
        f"{folders[0]}: has no sentencepiece models; copy source.spm and target.spm of the original model there, "
        "or one sentencepiece.model for both sides"
    )


def write_tokenizer(
    folder: Path,
    vocabulary: Ct2Vocabulary,
    pieces: tuple[Path, Path],
    languages: Languages | None,
    max_length: int,
) -> bool:
    """Write the files of a Marian tokenizer; return whether the sentencepiece model of the target had to be rebuilt."""
    separate = vocabulary.source != vocabulary.target
    source, target = pieces
    _read_pieces(source, set(vocabulary.source))
    shutil.copyfile(source, folder / "source.spm")
    known = _read_pieces(target, set(vocabulary.target))
    rebuilt = source == target and not covers_target(known, vocabulary.target)
    if rebuilt:
        rebuild_target_pieces(source, vocabulary.target, folder / "target.spm")
    else:
        shutil.copyfile(target, folder / "target.spm")
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
    return rebuilt


def _tokens(folder: Path, side: str) -> list[str]:
    """Read one vocabulary: a JSON list, or in older models one token per line; empty if there is none."""
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
        raise ModelError(f"{path}: is not a list of tokens; it is damaged, or another file")
    if len(set(tokens)) != len(tokens):
        raise ModelError(f"{path}: has a token twice, which Marian does not allow")
    return tokens


def _same_place(token: str, source: list[str], target: list[str]) -> bool:
    return token in source and token in target and source.index(token) == target.index(token)


def _add_token(token: str, source: list[str], target: list[str]) -> tuple[list[str], list[str]]:
    """Add a token with the same id to both sides, and pad the shorter side."""
    number = max(len(source), len(target))
    filled = [[*side, *(f"<spare{n}>" for n in range(len(side), number)), token] for side in (source, target)]
    return filled[0], filled[1]


def _read_pieces(path: Path, tokens: set[str]) -> set[str]:
    """Return the pieces of a sentencepiece model, which must be that of the translation model."""
    try:
        model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    except (OSError, RuntimeError, TypeError) as error:
        raise ModelError(f"{path}: is not a sentencepiece model; copy or download it again") from error
    pieces = {model.id_to_piece(number) for number in range(len(model))}
    known = len(pieces & tokens)
    if known * 2 < len(pieces):
        raise ModelError(
            f"{path}: only {known} of its {len(pieces)} pieces are in the model's vocabulary; it is another model's"
        )
    return pieces


_ACTIVATIONS = {0: "relu", 1: "gelu_new", 2: "swish", 3: "gelu", 4: "quick_gelu"}
# A row without a token is never predicted.
_NEVER = -1e4
_POSITION_ERROR = 4e-3  # of a table in half precision


def convert_to_marian(variables: Variables, vocabulary: Ct2Vocabulary) -> tuple[MarianConfig, dict[str, torch.Tensor]]:
    """Give config and weights, with rows for the tokens that the vocabulary had to add."""
    arrays: dict[str, NDArray[np.float32]] = {}
    for side in ("encoder", "decoder"):
        for number in range(variables.layers(side)):
            arrays |= _layer(variables, side, number)
    sizes = _sizes(variables, arrays)
    embeddings = _embeddings(variables, vocabulary)
    config = MarianConfig(
        vocab_size=len(vocabulary.source),
        decoder_vocab_size=len(vocabulary.target),
        **sizes,
        activation_function=_activation(variables),
        scale_embedding=_scaled(variables, sizes["d_model"]),
        max_position_embeddings=_positions(variables, sizes["d_model"]),
        share_encoder_decoder_embeddings="model.shared.weight" in embeddings,
        tie_word_embeddings="lm_head.weight" not in embeddings,
        pad_token_id=vocabulary.pad_id,
        eos_token_id=vocabulary.end_id,
        forced_eos_token_id=vocabulary.end_id,
        decoder_start_token_id=vocabulary.start,
    )
    return config, {name: torch.from_numpy(array) for name, array in (arrays | embeddings).items()}


def _embeddings(variables: Variables, vocabulary: Ct2Vocabulary) -> dict[str, NDArray[np.float32]]:
    """Return the embeddings, each once, and the output bias, extended to the whole vocabulary."""
    first = "encoder/embeddings_0/weight"
    source = variables.take(first if variables.has(first) else "encoder/embeddings/weight")
    target, output = (variables.take(f"decoder/{what}/weight") for what in ("embeddings", "projection"))
    bias = variables.take("decoder/projection/bias") if variables.has("decoder/projection/bias") else None
    counts = (vocabulary.rows[0], vocabulary.rows[1], vocabulary.rows[1])
    for what, rows, matrix in zip(("source", "target", "output"), counts, (source, target, output), strict=True):
        if matrix.ndim != 2 or len(matrix) != rows:
            raise ModelError(f"{variables.name}: has {len(matrix)} {what} embeddings for {rows} tokens")
    named = {"final_logits_bias": _bias(bias, vocabulary)[None]}
    tied = np.array_equal(target, output)
    if tied and np.array_equal(source, target):
        return named | {"model.shared.weight": _grown(source, len(vocabulary.target))}
    named["model.encoder.embed_tokens.weight"] = _grown(source, len(vocabulary.source))
    named["model.decoder.embed_tokens.weight"] = _grown(target, len(vocabulary.target))
    return named if tied else named | {"lm_head.weight": _grown(output, len(vocabulary.target))}


def _layer(variables: Variables, side: str, number: int) -> dict[str, NDArray[np.float32]]:
    """Return the weights of a layer by their names in Marian."""
    here, there = f"{side}/layer_{number}", f"model.{side}.layers.{number}"
    parts = {
        "self_attention/linear_0": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "self_attention/linear_1": ("self_attn.out_proj",),
        "ffn/linear_0": ("fc1",),
        "ffn/linear_1": ("fc2",),
    }
    norms = {"self_attention": "self_attn_layer_norm", "ffn": "final_layer_norm"}
    if side == "decoder":
        parts["attention/linear_0"] = ("encoder_attn.q_proj",)
        parts["attention/linear_1"] = ("encoder_attn.k_proj", "encoder_attn.v_proj")
        parts["attention/linear_2"] = ("encoder_attn.out_proj",)
        norms["attention"] = "encoder_attn_layer_norm"
    tensors = {}
    for own, theirs in parts.items():
        weight = variables.take(f"{here}/{own}/weight")
        has_bias = variables.has(f"{here}/{own}/bias")
        bias = variables.take(f"{here}/{own}/bias") if has_bias else np.zeros(len(weight), np.float32)
        for what, array in (("weight", weight), ("bias", bias)):
            if len(array) % len(theirs):
                raise ModelError(f"{variables.name}: {here}/{own} has {len(array)} rows for {len(theirs)} projections")
            for name, piece in zip(theirs, np.split(array, len(theirs)), strict=True):
                tensors[f"{there}.{name}.{what}"] = piece
    for own, theirs_norm in norms.items():
        for ours, what in (("gamma", "weight"), ("beta", "bias")):
            tensors[f"{there}.{theirs_norm}.{what}"] = variables.take(f"{here}/{own}/layer_norm/{ours}")
    return tensors


def _sizes(variables: Variables, arrays: dict[str, NDArray[np.float32]]) -> dict[str, Any]:
    sizes: dict[str, Any] = {}
    for side in ("encoder", "decoder"):
        inner = [array.shape for name, array in arrays.items() if name.startswith(f"model.{side}") and "fc1.w" in name]
        if not inner or len(inner[0]) != 2:
            raise ModelError(f"{variables.name}: has no {side} layers; it is not a translation model")
        sizes[f"{side}_layers"], (sizes[f"{side}_ffn_dim"], sizes["d_model"]) = len(inner), inner[0]
        sizes[f"{side}_attention_heads"] = int(variables.setting(side, "num_heads"))
    return sizes


def _activation(variables: Variables) -> str:
    numbers = {int(variables.setting(side, "activation", 0.0)) for side in ("encoder", "decoder")}
    if len(numbers) != 1 or not numbers <= _ACTIVATIONS.keys():
        raise ModelError(f"{variables.name}: has activations {sorted(numbers)}; Marian has one of {_ACTIVATIONS}")
    return _ACTIVATIONS[numbers.pop()]


def _scaled(variables: Variables, width: int) -> bool:
    """Return whether embeddings are scaled; the file has a flag, or the factor itself."""
    answers = set()
    for side in ("encoder", "decoder"):
        name = f"{side}/scale_embeddings"
        factor = variables.setting(side, "scale_embeddings", math.sqrt(width))
        is_flag = variables.has(name) and variables.is_flag(name)
        value = (math.sqrt(width) if factor else 1.0) if is_flag else factor
        scaled = math.isclose(value, math.sqrt(width), rel_tol=1e-3)
        if not scaled and value != 1.0:
            raise ModelError(f"{variables.name}: multiplies embeddings by {value:g}; Marian by 1 or {width}**0.5")
        answers.add(scaled)
    if len(answers) != 1:
        raise ModelError(f"{variables.name}: scales the embeddings of one side only, which Marian cannot express")
    return answers.pop()


def _positions(variables: Variables, width: int) -> int:
    """Check that the positions are Marian's sinusoids, and return their number."""
    counts = []
    for side in ("encoder", "decoder"):
        name = f"{side}/position_encodings/encodings"
        if not variables.has(name):
            raise ModelError(
                f"{variables.name}: has no {name}, so its positions are not Marian's; it cannot be imported"
            )
        table = variables.take(name)
        angles = np.arange(len(table))[:, None] / np.power(10000, 2 * np.arange((width + 1) // 2) / width)
        expected = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)[:, :width]
        if table.shape != expected.shape or np.abs(table - expected).max(initial=0) > _POSITION_ERROR:
            raise ModelError(
                f"{variables.name}: its {side} positions are learned or of another formula than Marian's sinusoids; "
                "it cannot be imported"
            )
        counts.append(len(table))
    return min(counts)


def _grown(matrix: NDArray[np.float32], rows: int) -> NDArray[np.float32]:
    return np.concatenate([matrix, np.zeros((rows - len(matrix), matrix.shape[1]), np.float32)])


def _bias(bias: NDArray[np.float32] | None, vocabulary: Ct2Vocabulary) -> NDArray[np.float32]:
    """Extend the output bias; the added token has 0, as in the OPUS-MT models of transformers."""
    grown = np.full(len(vocabulary.target), _NEVER, np.float32)
    rows = vocabulary.rows[1]
    grown[:rows] = 0.0 if bias is None else bias
    if vocabulary.pad_id >= rows:
        grown[vocabulary.pad_id] = 0.0
    return grown
