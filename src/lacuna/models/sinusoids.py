"""Position embeddings of Marian models, which are not in their files but computed at every load.

Transformers computes each number by a Python expression: 0.8 s for 512 positions, 3 s for 2,048, and longer than all
else that a load does. Knows nothing of files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn


def sinusoids(positions: int, width: int) -> torch.Tensor:
    """Return the embeddings ``(positions, width)``: sines, then cosines; to the last bit as transformers does.

    The powers are computed one by one like there, because NumPy's power of an array may round differently.
    """
    divisors = np.array([np.power(10000, 2 * (j // 2) / width) for j in range(width)])
    angles = np.arange(positions)[:, None] / divisors
    waves = np.concatenate([np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])], 1)
    return torch.from_numpy(waves.astype(np.float32))


@contextmanager
def fast_sinusoids() -> Iterator[None]:
    """Let transformers use :func:`sinusoids` for Marian models."""
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding as Embedding

    def create_weight(self: nn.Embedding) -> torch.Tensor:
        return sinusoids(*self.weight.shape).to(self.weight.dtype)

    before = Embedding.create_weight
    Embedding.create_weight = create_weight  # type: ignore[method-assign]
    try:
        yield
    finally:
        Embedding.create_weight = before  # type: ignore[method-assign]
