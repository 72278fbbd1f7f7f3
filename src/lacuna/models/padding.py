"""Padding of sequences of different length, and bucketing by length to avoid computing on padding.

Knows nothing of text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

# On a CPU, one more call of an encoder costs about as much time as this many tokens.
_TOKENS_PER_CALL = 32

Encoder = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def pad(sequences: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Pad on the right: return tokens and attention mask, ``(sequences, length)`` each."""
    longest = max(map(len, sequences))
    ids = [[*sequence, *[pad_id] * (longest - len(sequence))] for sequence in sequences]
    mask = [[1] * len(sequence) + [0] * (longest - len(sequence)) for sequence in sequences]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def run_bucketed(run: Encoder, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Run an encoder over padded sequences, one bucket of similar length at a time; pad its output with 0.

    Otherwise one long sentence among short ones would cost as much as if all were long. A GPU has capacity for that,
    and is faster with a single call.

    :param run: Maps tokens and mask to ``(sequences, length, width)``.
    """
    lengths: list[int] = mask.sum(1).tolist() if ids.device.type == "cpu" else []
    buckets = bucket_by_length(lengths)
    if len(buckets) < 2:
        return run(ids, mask)
    output: torch.Tensor | None = None
    for bucket in buckets:
        rows = torch.tensor(bucket)
        longest = lengths[bucket[0]]
        states = run(ids[rows, :longest], mask[rows, :longest])
        if output is None:
            output = states.new_zeros(*ids.shape, states.shape[-1])
        output[rows, :longest] = states
    assert output is not None
    return output


def bucket_by_length(lengths: Sequence[int]) -> list[list[int]]:
    """Sort sequences by length, longest first, and split them where padding would cost more than another call."""
    buckets: list[list[int]] = []
    padding = 0
    for number in sorted(range(len(lengths)), key=lambda n: -lengths[n]):
        missing = lengths[buckets[-1][0]] - lengths[number] if buckets else 0
        if not buckets or padding + missing > _TOKENS_PER_CALL:
            buckets.append([])
            padding = missing = 0
        buckets[-1].append(number)
        padding += missing
    return buckets
