"""The arrays of a CTranslate2 model by name, with an account of those that were used.

What is left over at the end is something the model has and Marian has not. Knows names; nothing of bytes or weights.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from lacuna.errors import ModelError
from lacuna.models.importing.ct2_file import ModelFile

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
    """The arrays of a model, which remembers those that were used."""

    def __init__(self, file: ModelFile) -> None:
        self._file = file
        self._unused = {name for name in file.variables if not name.endswith("_scale")}

    @property
    def name(self) -> str:
        """The file, for messages."""
        return str(self._file.path)

    def has(self, name: str) -> bool:
        """Tell whether there is such an array."""
        return name in self._file.variables

    def is_flag(self, name: str) -> bool:
        """Tell whether an array holds a yes or no rather than a measure."""
        return self._file.variables[name].dtype.kind == "i"

    def take(self, name: str) -> NDArray[np.float32]:
        """Give an array as float32 and count it as used."""
        if not self.has(name):
            raise ModelError(f"{self.name}: has no {name}; it is incomplete, or no translation model")
        self._unused.discard(name)
        return self._file.values(name)

    def setting(self, side: str, what: str, otherwise: float | None = None) -> float:
        """Give a number; before revision 5 both sides shared theirs."""
        name = next((name for name in (f"{side}/{what}", what) if self.has(name)), None)
        if name is None and otherwise is not None:
            return otherwise
        value = self.take(name or f"{side}/{what}")
        if value.ndim:
            raise ModelError(f"{self.name}: {name} is no single number; it is damaged")
        return float(value)

    def layers(self, side: str) -> int:
        """Count the layers of a side."""
        numbers = {int(match[1]) for name in self._unused if (match := re.match(rf"{side}/layer_(\d+)/", name))}
        return max(numbers, default=-1) + 1

    def check_all_used(self) -> None:
        """Refuse a model with an array that has no place in Marian and is not switched off."""
        for name in sorted(self._unused):
            if _HARMLESS.fullmatch(name) or (_OFF.fullmatch(name) and not self._file.values(name).any()):
                continue
            feature = next((feature for part, feature in _FEATURES.items() if part in name), f"the tensor {name}")
            raise ModelError(f"{self.name}: has {feature}, which Marian cannot express; it cannot be imported")
