"""Sequences of different length in one tensor: filling them up, and not computing what only fills up.

Knows nothing of what the tokens mean or of what reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

# On a CPU one more call of an encoder costs about as much time as so many tokens.
_TOKENS_PER_CALL = 32

Run = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def pad(sequences: Sequence[Sequence[int]], filler: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Fill up on the right: tokens and the mask of real ones, ``(sequences, length)`` each."""
    longest = max(map(len, sequences))
    ids = [[*sequence, *[filler] * (longest - len(sequence))] for sequence in sequences]
    mask = [[1] * len(sequence) + [0] * (longest - len(sequence)) for sequence in sequences]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def run_alike(run: Run, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Run something over filled-up sequences, those of like length at once; give its output for all, filled with 0.

    One long sentence among short ones would otherwise cost as much as if all were long. A GPU has room for that, and
    would rather be called once.

    :param run: From tokens and their mask to ``(sequences, length, width)``.
    """
    lengths: list[int] = mask.sum(1).tolist() if ids.device.type == "cpu" else []
    groups = group_alike(lengths)
    if len(groups) < 2:
        return run(ids, mask)
    output: torch.Tensor | None = None
    for group in groups:
        rows = torch.tensor(group)
        longest = lengths[group[0]]
        found = run(ids[rows, :longest], mask[rows, :longest])
        if output is None:
            output = found.new_zeros(*ids.shape, found.shape[-1])
        output[rows, :longest] = found
    assert output is not None
    return output


def group_alike(lengths: Sequence[int]) -> list[list[int]]:
    """Sort sequences by length, longest first, and cut them where filling up would cost more than another call."""
    groups: list[list[int]] = []
    filled = 0
    for number in sorted(range(len(lengths)), key=lambda n: -lengths[n]):
        missing = lengths[groups[-1][0]] - lengths[number] if groups else 0
        if not groups or filled + missing > _TOKENS_PER_CALL:
            groups.append([])
            filled = missing = 0
        groups[-1].append(number)
        filled += missing
    return groups
