"""Dividing the keys of a store into lists of near ones (k-means), so that near keys are found first.

Only the leading principal components are looked at, which is enough to tell what is near and several times as quick.
Knows nothing of what the lists are for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.margin.points import Centered
from lacuna.margin.sketch import Basis
from lacuna.progress import SILENT, Progress

_ROUNDS = 4
_TRAINING_PER_LIST = 40
_WIDTH = 64
_KEYS_AT_ONCE = 1024  # what stays in the cache


@dataclass(frozen=True)
class Lists:
    """Which list each key is in.

    :param centers: The mean of each list, in principal components. # (lists, components)
    :param list_of: The list of each key. # (keys,)
    """

    centers: NDArray[np.float32]
    list_of: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.centers)

    @cached_property
    def _members(self) -> list[NDArray[np.int64]]:
        ends = np.cumsum(np.bincount(self.list_of, minlength=len(self)))
        return np.split(np.argsort(self.list_of, kind="stable"), ends[:-1])

    def members(self, number: int) -> NDArray[np.int64]:
        """Return the keys of a list, in order."""
        return self._members[number]

    def nearest(self, number: int) -> NDArray[np.int64]:
        """Return all lists by the distance of their centers, the list itself first."""
        distances = ((self.centers - self.centers[number]) ** 2).sum(axis=1)
        distances[number] = -1
        return np.argsort(distances, kind="stable")


def make_lists(keys: Centered, rows: int, basis: Basis, count: int, seed: int, progress: Progress = SILENT) -> Lists:
    """Divide keys into lists by k-means on a sample.

    :param rows: How many keys there are.
    :param count: Lists to make, at most ``rows``.
    """
    rng = np.random.default_rng(seed)
    drawn = np.sort(rng.choice(rows, size=min(rows, count * _TRAINING_PER_LIST), replace=False)).astype(np.int64)
    turn = basis.vectors[:, :_WIDTH].contiguous()
    sample = torch.cat([keys.gather(some) @ turn for some in _pieces(drawn)])
    centers = sample[torch.from_numpy(rng.choice(len(sample), size=count, replace=False))].clone()
    progress.start("dividing keys into lists", rows + _ROUNDS * len(sample), "keys")
    for _ in range(_ROUNDS):
        chosen = torch.cat([_nearest_center(some, centers) for some in sample.split(_KEYS_AT_ONCE)])
        sums = torch.zeros_like(centers).index_add_(0, chosen, sample)
        sizes = torch.bincount(chosen, minlength=count).unsqueeze(1)
        centers = torch.where(sizes > 0, sums / sizes.clamp(min=1), centers)
        progress.advance(len(sample))
    list_of = np.empty(rows, dtype=np.int32)
    for ids in _pieces(np.arange(rows)):
        list_of[ids] = _nearest_center(keys.gather(ids) @ turn, centers).numpy()
        progress.advance(len(ids))
    progress.finish(f"({count:,} lists)")
    return Lists(centers.numpy(), list_of)


def _pieces(ids: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return np.split(ids, range(_KEYS_AT_ONCE, len(ids), _KEYS_AT_ONCE))


def _nearest_center(points: torch.Tensor, centers: torch.Tensor) -> torch.Tensor:
    scores = torch.mm(points, centers.T).sub_((centers * centers).sum(1) / 2)
    return torch.from_numpy(scores.numpy().argmax(axis=1))  # numpy is ten times as quick here
