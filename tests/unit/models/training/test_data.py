"""Pair sets and batches: nothing lost, nothing over budget, always the same; and tensors against naive padding."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.errors import TrainingError
from lacuna.models.training import data
from lacuna.models.training.data import PairSet, Tokens, cut_batches, join_pairs, make_batch, split_pairs
from lacuna.models.training.finetuning import encode_for, hold_out
from lacuna.progress import SILENT
from unit.models.tiny_models import Zoo
from unit.models.training.toy import toy_pairs

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


def numbers(count: int) -> list[tuple[list[int], list[int]]]:
    return [([1] * (1 + n % 7), [2] * (1 + n % 5)) for n in range(count)]


@given(st.integers(0, 5), st.integers(0, 5))
def test_epochs_are_functions_of_seed_and_number(seed: int, epoch: int) -> None:
    pairs = join_pairs([as_tokens(numbers(25)), as_tokens(numbers(15))], [1, 0.5])

    def batches(number: int) -> list[list[int]]:
        return [list(map(int, batch)) for batch in pairs.batches(20, seed, number)]

    assert batches(epoch) == batches(epoch)
    assert batches(epoch) != batches(epoch + 1)


@pytest.mark.parametrize(("weight", "expected"), [(1.0, 10), (2.0, 20), (0.5, 5), (2.3, 23)])
def test_weight_is_how_often_a_pair_is_seen(weight: float, expected: int) -> None:
    pairs = join_pairs([as_tokens(numbers(4)), as_tokens(numbers(10))], [1.0, weight])
    counts = Counter(map(int, np.concatenate(pairs.batches(20, 0))))
    assert sum(count for pair, count in counts.items() if pair >= 4) == expected
    assert all(counts[pair] == 1 for pair in range(4))
    assert max(counts.values()) - min(counts[pair] for pair in range(4, 14)) <= 1
    lengths = [len(target) for _, target in numbers(4)], [len(target) for _, target in numbers(10)]
    assert pairs.epoch_tokens == pytest.approx(sum(lengths[0]) + weight * sum(lengths[1]))


def test_weights_that_round_to_nothing_are_refused() -> None:
    with pytest.raises(TrainingError, match="every weight rounds to nothing"):
        join_pairs([as_tokens(numbers(4))], [0.1]).batches(20, 0)


@given(some_pairs, some_pairs)
def test_joined_corpora_keep_their_pairs(left: Sides, right: Sides) -> None:
    joined = join_pairs([as_tokens(left), as_tokens(right)], [1, 2])
    tokens = joined.tokens
    sides = [tokens.ids[a:b].tolist() for a, b in zip(tokens.starts, tokens.starts[1:], strict=False)]
    expected = [(list(source), list(target)) for source, target in (*left, *right)]
    assert list(zip(sides[0::2], sides[1::2], strict=True)) == expected
    assert [part.tolist() for part in joined.parts] == [
        list(range(len(left))),
        list(range(len(left), len(left) + len(right))),
    ]


def test_held_out_pairs_leave_the_corpus_they_come_from() -> None:
    train, dev = split_pairs(join_pairs([as_tokens(numbers(4)), as_tokens(numbers(3))], [1, 2], 5), np.array([6, 1, 2]))
    assert [part.tolist() for part in train.parts] == [[0, 3], [4, 5]]
    assert [part.tolist() for part in dev.parts] == [[1, 2, 6]]
    assert (train.weights, dev.weights, train.too_long, dev.too_long) == ((1, 2), (1.0,), 5, 0)


def made_up(count: int) -> PairSet:
    starts = np.arange(0, 6 * count + 1, 3)
    return PairSet(Tokens(np.arange(6 * count), starts), (np.arange(count),), too_long=4, names=("a.tsv",))


@given(count=st.integers(10, 300), most=st.integers(1, 40), seed=st.integers(0, 5))
def test_holding_out_parts_the_pairs(count: int, most: int, seed: int) -> None:
    kept, held = hold_out(made_up(count), most, seed)
    assert len(held) == min(most, count // 10)
    assert sorted([*kept.parts[0], *held.parts[0]]) == list(range(count))
    again, _ = hold_out(made_up(count), most, seed)
    assert np.array_equal(kept.parts[0], again.parts[0])
    assert kept.too_long + held.too_long == 4


def test_too_few_pairs_to_hold_some_out() -> None:
    with pytest.raises(TrainingError, match="9 training pairs are too few"):
        hold_out(made_up(9), 100, 1)


@given(budget=st.integers(1, 50), epoch=st.integers(0, 3))
def test_an_epoch_has_every_chosen_pair_once(budget: int, epoch: int) -> None:
    kept, _ = hold_out(made_up(50), 5, 1)
    batches = kept.batches(budget, 7, epoch)
    assert sorted(np.concatenate(batches)) == list(kept.parts[0])
    assert all(np.array_equal(a, b) for a, b in zip(batches, kept.batches(budget, 7, epoch), strict=True))


def test_tokens_are_the_models_own_whatever_the_chunk(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    model, pairs = zoo.model("m2m100"), toy_pairs(23)
    monkeypatch.setattr(data, "_CHUNK", 5)
    encoded = encode_for(model, iter(pairs), "toy", SILENT)
    tokens = encoded.tokens
    sides = [tokens.ids[a:b].tolist() for a, b in zip(tokens.starts, tokens.starts[1:], strict=False)]
    assert sides[0::2] == model.encode_sources([pair.source for pair in pairs])
    assert sides[1::2] == model.encode_targets([pair.target for pair in pairs])
    assert encoded.names == ("toy.tsv",)


def test_other_text_has_another_hash(zoo: Zoo) -> None:
    digests = [encode_for(zoo.model("marian"), toy_pairs(9, seed), "toy", SILENT).digest() for seed in (0, 0, 1)]
    assert digests[0] == digests[1] != digests[2]
