"""Vectors by number, and as float32 around their mean. Knows nothing of distances."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

EPSILON = float(np.finfo(np.float32).eps)


class Points(Protocol):
    """The keys of a store are such, and so are queries."""

    @property
    def dimension(self) -> int: ...  # noqa: D102

    def gather(self, ids: NDArray[np.int64]) -> NDArray[Any]: ...  # noqa: D102


class Queries:
    """Vectors in memory.

    :param array: ``(n, dimension)``.
    """

    def __init__(self, array: NDArray[np.float32]) -> None:
        self._array = array
        self.dimension = array.shape[1]

    def gather(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return some of them."""
        return self._array[ids]


class Centered:
    """Points with their mean taken away, which makes them short and products of them precise.

    :param mean: Any point will do; the mean is the best.
    """

    def __init__(self, points: Points, mean: NDArray[np.float32]) -> None:
        self.points = points
        self._mean = torch.from_numpy(np.array(mean, dtype=np.float32))

    @property
    def dimension(self) -> int:
        """How many numbers a point has."""
        return self.points.dimension

    def gather(self, ids: NDArray[np.int64]) -> torch.Tensor:  # (ids, dimension)
        """Read some points."""
        return wide(self.points.gather(ids)).sub_(self._mean)


def wide(points: NDArray[Any]) -> torch.Tensor:
    """Make a float32 tensor of its own (torch is several times as quick as numpy at float16)."""
    return torch.from_numpy(points).to(torch.float32, copy=True)
