"""CTranslate2 folders for the tests, made by CTranslate2's own converter; and a writer of its file format by hand."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import transformers
from ctranslate2.converters.transformers import BartLoader, MarianMTLoader
from ctranslate2.specs import TransformerSpec

TYPES = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4}


def make_spec(hf: Any, *, keep_last_row: bool = False) -> TransformerSpec:
    """Let CTranslate2 describe a Marian model; it drops the last row, the filler's, unless told otherwise."""
    hf.config.normalize_before = hf.config.normalize_embedding = False
    loader = MarianMTLoader()
    return BartLoader.get_model_spec(loader, hf) if keep_last_row else loader.get_model_spec(hf)


def save_spec(
    spec: TransformerSpec,
    into: Path,
    source: list[str],
    target: list[str],
    *,
    pieces: Path | None = None,
    quantization: str | None = None,
) -> Path:
    """Write a folder as CTranslate2 does, with the sentencepiece models of another folder."""
    spec.config.decoder_start_token = spec.config.decoder_start_token or "</s>"
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.validate()
    spec.optimize(quantization=quantization)
    into.mkdir()
    spec.save(str(into))
    if pieces is not None:
        for name in ("source.spm", "target.spm"):
            shutil.copy(pieces / name, into / name)
    return into


def tokens_in(path: Path) -> list[str]:
    vocabulary: dict[str, int] = json.loads(path.read_text())
    return sorted(vocabulary, key=vocabulary.__getitem__)


def load_hf(folder: Path) -> Any:
    return transformers.MarianMTModel.from_pretrained(folder)


def arrays_of(spec: TransformerSpec) -> dict[str, np.ndarray[Any, Any]]:
    """Give every variable of a validated specification."""
    return {name: variable.numpy() for name, variable in spec.variables().items()}


def write_model_bin(
    path: Path,
    arrays: Mapping[str, np.ndarray[Any, Any]],
    aliases: Mapping[str, str] | None = None,
    *,
    version: int = 6,
    spec: str = "TransformerSpec",
    revision: int = 7,
) -> Path:
    def text(name: str) -> bytes:
        return struct.pack("<H", len(name) + 1) + name.encode() + b"\0"

    parts = [struct.pack("<I", version), text(spec), struct.pack("<I", revision), struct.pack("<I", len(arrays))]
    for name, array in arrays.items():
        shape = struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)
        parts += [text(name), shape, struct.pack("<BI", TYPES[array.dtype.name], array.nbytes), array.tobytes()]
    parts.append(struct.pack("<I", len(aliases or {})))
    parts += [text(alias) + text(name) for alias, name in (aliases or {}).items()]
    path.write_bytes(b"".join(parts))
    return path
