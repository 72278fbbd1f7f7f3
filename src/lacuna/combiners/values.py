"""What the values of a query's neighbors have in common: which are the same, and how many different ones there are.

A token id is a token id: 0 counts like any other, and only -1 means that there is no neighbor.
"""

from __future__ import annotations

import torch


def first_places(values: torch.Tensor) -> torch.Tensor:
    """Return, for each neighbor, the place of the nearest one with the same value: (queries, k)."""
    same = values[:, :, None] == values[:, None, :]  # (queries, k, k)
    return same.byte().argmax(-1)  # of equal maxima, argmax is documented to return the first


def distinct_counts(values: torch.Tensor) -> torch.Tensor:
    """Return how many different values the first 1, 2, ..., k neighbors have: (queries, k)."""
    places = torch.arange(values.shape[1], device=values.device)
    is_new = (first_places(values) == places) & (values >= 0)
    return is_new.cumsum(1)
