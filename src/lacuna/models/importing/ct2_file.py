"""Read CTranslate2's ``model.bin``: named arrays, some of them quantized, and aliases.

Knows the binary format (versions 4 to 6, little-endian); nothing of what the arrays are for.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.errors import ModelError

# In the order of the format's type numbers; numpy has no bfloat16, which is the upper half of a float32.
_TYPES = ("<f4", "<i1", "<i2", "<i4", "<f2", "<u2")
_BFLOAT16 = np.dtype("<u2")
_VERSIONS = range(4, 7)


@dataclass(frozen=True, slots=True)
class ModelFile:
    """Arrays of a model, mapped from the file.

    :param spec: The architecture's name.
    :param revision: The version of the architecture's names.
    """

    path: Path
    spec: str
    revision: int
    variables: dict[str, NDArray[Any]]

    def values(self, name: str) -> NDArray[np.float32]:
        """Return an array as float32, dequantized if necessary."""
        stored = self.variables[name]
        if stored.dtype == _BFLOAT16:
            return (stored.astype(np.uint32) << 16).view(np.float32)
        numbers = stored.astype(np.float32)
        scale = self.variables.get(f"{name}_scale")
        if scale is None:
            if stored.dtype.kind == "i" and stored.ndim:
                raise ModelError(f"{self.path}: {name} is quantized but has no scale; it is damaged")
            return numbers
        # One scale for all (int16) or one for each row (int8).
        if scale.ndim > 1 or (scale.ndim and (stored.ndim == 0 or len(scale) != len(stored))):
            raise ModelError(f"{self.path}: {name} has a scale of another shape; it is damaged")
        numbers /= scale.astype(np.float32).reshape(-1, *[1] * (stored.ndim - 1))
        return numbers


def read_model_file(path: Path) -> ModelFile:
    """Read the index of a ``model.bin``; the arrays stay on disk until they are used."""
    try:
        cursor = _Cursor(path, np.memmap(path, dtype=np.uint8, mode="r"))
    except (OSError, ValueError) as error:  # numpy cannot map an empty file
        raise ModelError(f"{path}: cannot be read ({error}); copy or download it again") from error
    version = cursor.number("<I")
    if version not in _VERSIONS:
        raise ModelError(
            f"{path}: is not a supported model.bin of CTranslate2 (binary version {version}; "
            f"supported are {_VERSIONS[0]} to {_VERSIONS[-1]})"
        )
    spec, revision = cursor.text(), cursor.number("<I")
    variables: dict[str, NDArray[Any]] = {}
    for _ in range(cursor.number("<I")):
        name = cursor.text()
        variables[name] = cursor.array(name)
    for _ in range(cursor.number("<I")):
        alias, original = cursor.text(), cursor.text()
        if original not in variables:
            raise ModelError(f"{path}: {alias} stands for {original}, which is not there; it is damaged")
        for ending in ("", "_scale"):
            if original + ending in variables:
                variables[alias + ending] = variables[original + ending]
    return ModelFile(path, spec, revision, variables)


class _Cursor:
    """Reads a mapped file sequentially, and never past its end."""

    def __init__(self, path: Path, content: NDArray[np.uint8]) -> None:
        self._path, self._content, self._at = path, content, 0

    def _take(self, size: int) -> NDArray[np.uint8]:
        if size > len(self._content) - self._at:
            raise ModelError(f"{self._path}: ends in the middle of a model; copy or download it again")
        self._at += size
        return self._content[self._at - size : self._at]

    def number(self, form: str) -> int:
        return int(struct.unpack(form, self._take(struct.calcsize(form)).tobytes())[0])

    def text(self) -> str:
        raw = self._take(self.number("<H")).tobytes()
        try:
            return raw.removesuffix(b"\0").decode()
        except UnicodeDecodeError as error:
            raise ModelError(f"{self._path}: has a name that is not text; it is damaged") from error

    def array(self, name: str) -> NDArray[Any]:
        shape = [self.number("<I") for _ in range(self.number("<B"))]
        kind, size = self.number("<B"), self.number("<I")
        if kind >= len(_TYPES) or size != math.prod(shape) * np.dtype(_TYPES[kind]).itemsize:
            raise ModelError(f"{self._path}: {name} has type {kind}, shape {shape} and {size} bytes; it is damaged")
        return self._take(size).view(_TYPES[kind]).reshape(shape)


# Only alignments and multi-feature inputs use these, or they are off when 0 or false.
_HARMLESS = re.compile(r"((encoder|decoder)/)?(embeddings_merge|alignment_layer|alignment_heads)")
_OFF = re.compile(r"(encoder/multi_query_attention)|decoder/(alibi|alibi_use_positive_positions|scale_alibi)")
_FEATURES = {
    "layernorm_embedding": "a normalization of the embeddings",
    "linear_0_noact": "gated feed-forward layers (GLU)",
    "rotary": "rotary positions",
    "relative": "relative positions",
    "alibi": "ALiBi positions",
    "multi_query": "shared attention heads",
    "num_heads_kv": "shared attention heads",
    "encoder/embeddings_": "several features for each source token",
    "weight_zero": "4-bit weights (AWQ)",
}


class Variables:
    """Arrays of a model, with a record of those that were used."""

    def __init__(self, file: ModelFile) -> None:
        self._file = file
        self._unused = {name for name in file.variables if not name.endswith("_scale")}

    @property
    def name(self) -> str:
        """File name for messages."""
        return str(self._file.path)

    def has(self, name: str) -> bool:
        """Return whether there is such an array."""
        return name in self._file.variables

    def is_flag(self, name: str) -> bool:
        """Return whether an array is a flag, not a number."""
        return self._file.variables[name].dtype.kind == "i"

    def take(self, name: str) -> NDArray[np.float32]:
        """Return an array as float32 and mark it as used."""
        if not self.has(name):
            raise ModelError(f"{self.name}: has no {name}; it is incomplete, or not a translation model")
        self._unused.discard(name)
        return self._file.values(name)

    def setting(self, side: str, what: str, otherwise: float | None = None) -> float:
        """Return a number; before revision 5 both sides shared it."""
        name = next((name for name in (f"{side}/{what}", what) if self.has(name)), None)
        if name is None and otherwise is not None:
            return otherwise
        value = self.take(name or f"{side}/{what}")
        if value.ndim:
            raise ModelError(f"{self.name}: {name} is not a single number; it is damaged")
        return float(value)

    def layers(self, side: str) -> int:
        """Count the layers of a side."""
        numbers = {int(match[1]) for name in self._unused if (match := re.match(rf"{side}/layer_(\d+)/", name))}
        return max(numbers, default=-1) + 1

    def check_all_used(self) -> None:
        """Refuse a model with an array that Marian does not have, unless it is switched off."""
        for name in sorted(self._unused):
            if _HARMLESS.fullmatch(name) or (_OFF.fullmatch(name) and not self._file.values(name).any()):
                continue
            feature = next((feature for part, feature in _FEATURES.items() if part in name), f"the tensor {name}")
            raise ModelError(f"{self.name}: has {feature}, which Marian cannot express; it cannot be imported")
