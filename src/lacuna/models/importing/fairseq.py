"""Convert fairseq checkpoints, dictionaries and BPE codes to FSMT.

Fairseq marks a subword that is continued (``hau@@ s``), FSMT one that ends a word (``hau s</w>``); ids stay the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import FSMTConfig

from lacuna.artifacts.files import write_json, write_text
from lacuna.errors import ModelError
from lacuna.models.importing.folder import ImportReport, agreed_languages, write_weights
from lacuna.models.importing.unpickling import read_checkpoint_file, state_of
from lacuna.records import Languages

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_CODE_FILES = ("bpecodes", "bpe.codes", "codes", "code")


def read_dictionary(path: Path) -> dict[str, int]:
    """Read ``token count`` lines; the four special tokens come first and are not in the file."""
    vocabulary = {token: number for number, token in enumerate(SPECIAL)}
    for number, line in enumerate(_lines(path), start=1):
        token, space, count = line.rpartition(" ")
        if not space or not count.isdigit():
            raise ModelError(f"{path}:{number}: got {line[:40]!r} where a dictionary has a token and its count")
        spelled = token.removesuffix("@@") if token.endswith("@@") else f"{token}</w>"
        if spelled in vocabulary:
            raise ModelError(f"{path}:{number}: {token!r} is there twice; FSMT cannot have a token twice")
        vocabulary[spelled] = len(vocabulary)
    return vocabulary


def read_merges(folder: Path) -> list[str]:
    """Read the BPE codes of fastBPE (``a b count``), or of subword-nmt 0.2 and later."""
    path = next((folder / name for name in _CODE_FILES if (folder / name).is_file()), None)
    if path is None:
        raise ModelError(
            f"{folder}: has no BPE codes ({', '.join(_CODE_FILES)}); put the file there under one of these names. "
            "Models with a sentencepiece vocabulary cannot be imported: FSMT has BPE only"
        )
    lines = _lines(path)
    has_version = bool(lines) and lines[0].startswith("#version:")
    if has_version and lines[0].split()[-1] == "0.1":
        raise ModelError(f"{path}: subword-nmt codes of version 0.1 treat word ends unlike FSMT; it cannot be imported")
    merges: dict[str, None] = {}  # of equal merges, the first counts
    for number, line in enumerate(lines[has_version:], start=1 + has_version):
        parts = line.split(" ")
        counted = len(parts) == 3 and parts[2].isdigit()
        if not (counted or (has_version and len(parts) == 2)) or not all(parts):
            raise ModelError(
                f"{path}:{number}: got {line[:40]!r}; allowed are fastBPE's 'a b count', "
                "or 'a b' under subword-nmt's '#version: 0.2'"
            )
        merges[" ".join(parts[:2])] = None
    return list(merges)


def write_tokenizer(
    folder: Path, source: dict[str, int], target: dict[str, int], merges: list[str], languages: Languages
) -> None:
    """Write the files of an FSMT tokenizer."""
    write_json(folder / "vocab-src.json", source)
    write_json(folder / "vocab-tgt.json", target)
    write_text(folder / "merges.txt", "".join(f"{merge}\n" for merge in merges))
    settings = {"langs": [languages.source, languages.target], "tokenizer_class": "FSMTTokenizer"}
    write_json(folder / "tokenizer_config.json", settings)


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); put it next to the checkpoint") from error
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: is not UTF-8 (byte {error.start}); it is damaged, or another file") from error
    # Not splitlines(): a dictionary may contain tokens such as U+2028, which it would take for a line end.
    return [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]


_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_accurate": "gelu_new", "gelu_fast": "gelu_new", "swish": "silu"}
# Settings that FSMT does not have.
_REFUSED = (
    "encoder_normalize_before",
    "decoder_normalize_before",
    "encoder_learned_pos",
    "decoder_learned_pos",
    "no_token_positional_embeddings",
    "layernorm_embedding",
    "adaptive_softmax_cutoff",
    "adaptive_input",
    "character_embeddings",
    "no_cross_attention",
    "cross_self_attention",
)
_EMPTY = re.compile(r"(encoder|decoder)\.(version|embed_positions\._float_tensor)")
_FUSED = re.compile(r"(.+_attn)\.in_proj_(weight|bias)")
_OLD_NORM = re.compile(r"((encoder|decoder)\.layers\.\d+)\.layer_norms\.(\d)\.(weight|bias)")
_NORMS = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}
_EMBEDDINGS = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "decoder.output_projection.weight")


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    name: str
    settings: dict[str, object]
    tensors: dict[str, torch.Tensor]
    ignored: tuple[str, ...]

    def number(self, setting: str, otherwise: int | None = None) -> int:
        value = self.settings.get(setting, otherwise)
        if not isinstance(value, int) or value < 1:
            raise ModelError(f"{self.name}: got {setting} {value!r} in its settings; allowed is 1 or more")
        return value


def import_fairseq(
    folder: Path, into: Path, report_into: Path, languages: Languages | None, checkpoint: str | None
) -> ImportReport:
    """Convert a checkpoint with its dictionaries and BPE codes into an FSMT folder.

    :param into: Folder to write to; ``report_into`` is its final name.
    :param checkpoint: File name in the folder, if there are several.
    """
    read = _read(folder / (checkpoint or _only_checkpoint(folder)))
    direction = agreed_languages(languages, _own_languages(read.settings), read.name)
    if direction is None:
        raise ModelError(f"{read.name}: does not name its languages; give them, as in languages de-en")
    codes = (direction.source, direction.target)
    source, target = (read_dictionary(folder / f"dict.{code}.txt") for code in codes)
    config, tensors = _convert(read, direction)
    rows = (config.src_vocab_size, config.tgt_vocab_size)
    for code, vocabulary, count in zip(codes, (source, target), rows, strict=True):
        if len(vocabulary) != count:
            raise ModelError(
                f"{read.name}: has {count} tokens but dict.{code}.txt {len(vocabulary)} (with {len(SPECIAL)} special "
                "ones); they do not belong together, or the direction is the other one"
            )
    write_tokenizer(into, source, target, read_merges(folder), direction)
    parameters = write_weights(into, config, tensors, name=read.name)
    return ImportReport(
        "fairseq", report_into, parameters, len(source), len(target), direction, tensors_ignored=read.ignored
    )


def _only_checkpoint(folder: Path) -> str:
    names = sorted(path.name for path in folder.glob("*.pt"))
    if "model.pt" in names:
        return "model.pt"
    if len(names) != 1:
        raise ModelError(f"{folder}: has {', '.join(names) or 'no .pt file'}; name the one checkpoint to import")
    return names[0]


def _read(path: Path) -> _Checkpoint:
    if not path.is_file():
        raise ModelError(f"{path}: no such checkpoint; name one of the .pt files in the folder")
    content = read_checkpoint_file(path)
    weights = content.get("model")
    if not isinstance(weights, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in weights.values()):
        raise ModelError(f"{path}: has no weights under 'model'; it is not a checkpoint of fairseq")
    config = state_of(content.get("cfg"))
    settings = state_of(content.get("args")) or {**state_of(config.get("task")), **state_of(config.get("model"))}
    if not settings:
        raise ModelError(f"{path}: has neither 'args' nor 'cfg' with settings; it is not a checkpoint of fairseq")
    ignored = tuple(sorted(name for name in weights if _EMPTY.fullmatch(name)))
    kept = {name: tensor for old, given in weights.items() if old not in ignored for name, tensor in _named(old, given)}
    return _Checkpoint(str(path), settings, kept, ignored)


def _named(name: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield a tensor by its name in current fairseq, which is also FSMT's."""
    if match := _FUSED.fullmatch(name):
        for part, piece in zip("qkv", tensor.chunk(3), strict=True):
            yield f"{match[1]}.{part}_proj.{match[2]}", piece
    elif (match := _OLD_NORM.fullmatch(name)) and int(match[3]) < len(_NORMS[match[2]]):
        yield f"{match[1]}.{_NORMS[match[2]][int(match[3])]}.{match[4]}", tensor
    else:
        yield ("decoder.output_projection.weight" if name == "decoder.embed_out" else name), tensor


def _own_languages(settings: dict[str, object]) -> Languages | None:
    source, target = settings.get("source_lang"), settings.get("target_lang")
    return Languages(str(source), str(target)) if source and target else None


def _convert(read: _Checkpoint, languages: Languages) -> tuple[FSMTConfig, dict[str, torch.Tensor]]:
    _check_settings(read)
    tensors = dict(read.tensors)
    shared = read.settings.get("share_all_embeddings") or read.settings.get("share_decoder_input_output_embed")
    if _EMBEDDINGS[2] not in tensors and shared and _EMBEDDINGS[1] in tensors:
        tensors[_EMBEDDINGS[2]] = tensors[_EMBEDDINGS[1]]
    if missing := [name for name in _EMBEDDINGS if name not in tensors]:
        raise ModelError(f"{read.name}: has no {missing[0]}; it is not a translation model, or incomplete")
    source, target, output = (tensors[name] for name in _EMBEDDINGS)
    tied = torch.equal(source, target) and torch.equal(target, output)
    config = FSMTConfig(
        langs=[languages.source, languages.target],
        src_vocab_size=len(source),
        tgt_vocab_size=len(target),
        d_model=target.shape[1],
        **_side("encoder", read),
        **_side("decoder", read),
        activation_function=_activation(read),
        max_position_embeddings=min(read.number(f"max_{side}_positions", 1024) for side in ("source", "target")),
        scale_embedding=not read.settings.get("no_scale_embedding"),
        tie_word_embeddings=tied,
    )
    if tied:
        del tensors[_EMBEDDINGS[0]], tensors[_EMBEDDINGS[2]]
    return config, {f"model.{name}": tensor for name, tensor in tensors.items()}


def _check_settings(read: _Checkpoint) -> None:
    architecture = str(read.settings.get("arch") or read.settings.get("_name") or "transformer")
    if not architecture.startswith("transformer"):
        raise ModelError(f"{read.name}: is a {architecture} model; only transformer models can be imported")
    for setting in _REFUSED:
        if read.settings.get(setting):
            raise ModelError(
                f"{read.name}: was trained with {setting}, which FSMT cannot express; it cannot be imported"
            )


def _side(side: str, read: _Checkpoint) -> dict[str, Any]:
    pattern = re.compile(rf"{side}\.layers\.(\d+)\.fc1\.weight")
    inner = {int(match[1]): len(tensor) for name, tensor in read.tensors.items() if (match := pattern.fullmatch(name))}
    if not inner or sorted(inner) != list(range(len(inner))):
        raise ModelError(f"{read.name}: has {side} layers {sorted(inner)}; needed are all from 0 on")
    return {
        f"{side}_layers": len(inner),
        f"{side}_ffn_dim": inner[0],
        f"{side}_attention_heads": read.number(f"{side}_attention_heads"),
    }


def _activation(read: _Checkpoint) -> str:
    own = str(read.settings.get("activation_fn") or "relu")
    if own not in _ACTIVATIONS:
        raise ModelError(f"{read.name}: has activation_fn {own}; supported are {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[own]
