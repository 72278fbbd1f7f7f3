"""Batches: nothing lost, nothing over budget, always the same; and the tensors against a naive gathering."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lacuna.models.training.data import (
    Tokens,
    choose_pairs,
    cut_batches,
    epoch_batches,
    make_batch,
    plain_batches,
)
from lacuna.models.training.trainer import join_tokens, select_tokens

PAD = 99
Sides = list[tuple[list[int], list[int]]]
side = st.lists(st.integers(0, 50), min_size=1, max_size=12)
some_pairs = st.lists(st.tuples(side, side), min_size=1, max_size=30)


def as_tokens(pairs: Sides) -> Tokens:
    flat = [side for pair in pairs for side in pair]
    return Tokens(
        np.concatenate([np.asarray(side, np.uint16) for side in flat]), np.cumsum([0, *map(len, flat)]).astype(np.int64)
    )


@given(some_pairs, st.integers(1, 60), st.integers(0, 9))
def test_every_pair_is_in_exactly_one_batch_within_budget(pairs: Sides, budget: int, seed: int) -> None:
    tokens = as_tokens(pairs)
    everything = np.arange(len(pairs))
    rng = np.random.default_rng(seed)
    batches = cut_batches(tokens.source_lengths, tokens.target_lengths, everything, budget, rng)
    assert sorted(np.concatenate(batches)) == list(everything)
    for batch in batches:
        longest = max(max(len(pairs[pair][0]), len(pairs[pair][1])) for pair in batch)
        assert len(batch) == 1 or longest * len(batch) <= budget


@given(some_pairs)
def test_tensors_equal_a_naive_gathering(pairs: Sides) -> None:
    batch = make_batch(as_tokens(pairs), np.arange(len(pairs)), PAD)
    width = max(len(source) for source, _ in pairs)
    assert batch.source.tolist() == [source + [PAD] * (width - len(source)) for source, _ in pairs]
    assert batch.target.tolist() == [token for _, target in pairs for token in target]
    height = max(len(target) for _, target in pairs)
    expected = [([PAD, *target[:-1]] + [PAD] * height)[:height] for _, target in pairs]
    real = [row[: len(target)] for row, (_, target) in zip(batch.target_input.tolist(), pairs, strict=True)]
    assert real == [row[: len(target)] for row, (_, target) in zip(expected, pairs, strict=True)]
    flat = batch.target_input.flatten()[batch.target_places].tolist()
    assert flat == [token for row in real for token in row]


@given(some_pairs)
def test_mask_is_there_exactly_where_something_is_padded(pairs: Sides) -> None:
    batch = make_batch(as_tokens(pairs), np.arange(len(pairs)), PAD)
    lengths = [len(source) for source, _ in pairs]
    if len(set(lengths)) == 1:
        assert batch.source_mask is None
    else:
        assert batch.source_mask is not None
        assert batch.source_mask.sum(1).tolist() == lengths


@given(st.integers(0, 5), st.integers(0, 5))
def test_epochs_are_functions_of_seed_and_number(seed: int, epoch: int) -> None:
    tokens = as_tokens([([1] * (1 + n % 7), [2] * (1 + n % 5)) for n in range(40)])

    def batches(number: int) -> list[list[int]]:
        return [list(map(int, batch)) for batch in epoch_batches(tokens, [25, 15], [1, 0.5], 20, seed, number)]

    assert batches(epoch) == batches(epoch)
    assert batches(epoch) != batches(epoch + 1)


@pytest.mark.parametrize(("weight", "expected"), [(1.0, 10), (2.0, 20), (0.5, 5), (2.3, 23)])
def test_weight_is_how_often_a_pair_is_seen(weight: float, expected: int) -> None:
    chosen: NDArray[np.int64] = choose_pairs([4, 10], [1.0, weight], np.random.default_rng(0))
    counts = Counter(map(int, chosen))
    assert sum(count for pair, count in counts.items() if pair >= 4) == expected
    assert all(counts[pair] == 1 for pair in range(4))
    assert max(counts.values()) - min(counts[pair] for pair in range(4, 14)) <= 1 or weight > 2


def test_plain_batches_cover_everything_once() -> None:
    tokens = as_tokens([([1] * 3, [2] * 4)] * 11)
    assert sorted(np.concatenate(list(plain_batches(tokens, 16)))) == list(range(11))


@given(some_pairs, some_pairs)
def test_joined_tokens_select_back_to_their_parts(left: Sides, right: Sides) -> None:
    joined = join_tokens([as_tokens(left), as_tokens(right)])
    again = select_tokens(joined, range(len(left), len(left) + len(right)))
    assert again.ids.tolist() == as_tokens(right).ids.tolist()
    assert again.starts.tolist() == as_tokens(right).starts.tolist()
