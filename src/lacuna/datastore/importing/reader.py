"""What an import asks of a model. Knows keys and tokens; nothing of files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore.describing import KeyMaker


class KeyReader(KeyMaker, Protocol):
    """A model, as far as keys are read with it: :class:`lacuna.models.Model` is such."""

    @property
    def max_length(self) -> int: ...  # noqa: D102

    def decode(self, ids: Sequence[int]) -> str:
        """Turn tokens into text."""

    def judge(
        self, keys: NDArray[np.float32], gold: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]:
        """Give prediction, log-probability of the gold token, and entropy for each key of kind ``out``."""

    def could_be(self, kind: str, keys: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Say of each key whether it bears the mark of its kind."""

    def finish_layer(self, keys: NDArray[np.float32]) -> NDArray[np.float32]:
        """Carry keys of kind ``ffn_in`` to ``out``."""
