"""Pairs as tokens: as the model makes them, parted without loss, and known by their hash."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.errors import TrainingError
from lacuna.models.finetuning import pairs as pairs_module
from lacuna.models.finetuning.pairs import PairSet, encode_corpus, hold_out
from lacuna.models.training.data import Tokens
from lacuna.progress import SILENT
from unit.finetuning.toy import toy_pairs
from unit.models.tiny_models import Zoo


def made_up(count: int) -> PairSet:
    starts = np.arange(0, 6 * count + 1, 3)
    return PairSet(Tokens(np.arange(6 * count), starts), np.arange(count), 4, ("a.tsv",))


@given(count=st.integers(10, 300), most=st.integers(1, 40), seed=st.integers(0, 5))
def test_holding_out_parts_the_pairs(count: int, most: int, seed: int) -> None:
    kept, held = hold_out(made_up(count), most, seed)
    assert len(held) == min(most, count // 10)
    assert sorted([*kept.chosen, *held.chosen]) == list(range(count))
    again, _ = hold_out(made_up(count), most, seed)
    assert np.array_equal(kept.chosen, again.chosen)
    assert kept.too_long + held.too_long == 4


def test_too_few_pairs_to_hold_some_out() -> None:
    with pytest.raises(TrainingError, match="9 training pairs are too few"):
        hold_out(made_up(9), 100, 1)


@given(budget=st.integers(1, 50), epoch=st.integers(0, 3))
def test_an_epoch_has_every_chosen_pair_once(budget: int, epoch: int) -> None:
    kept, _ = hold_out(made_up(50), 5, 1)
    batches = kept.batches(budget, 7, epoch)
    assert sorted(np.concatenate(batches)) == list(kept.chosen)
    assert all(np.array_equal(a, b) for a, b in zip(batches, kept.batches(budget, 7, epoch), strict=True))


def test_tokens_are_the_models_own_whatever_the_chunk(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    model, pairs = zoo.model("m2m100"), toy_pairs(23)
    monkeypatch.setattr(pairs_module, "_CHUNK", 5)
    encoded = encode_corpus(model, iter(pairs), "toy", SILENT)
    tokens = encoded.tokens
    sides = [tokens.ids[a:b].tolist() for a, b in zip(tokens.starts, tokens.starts[1:], strict=False)]
    assert sides[0::2] == model.encode_sources([pair.source for pair in pairs])
    assert sides[1::2] == model.encode_targets([pair.target for pair in pairs])
    assert encoded.names == ("toy.tsv",)


def test_other_text_has_another_hash(zoo: Zoo) -> None:
    digests = [encode_corpus(zoo.model("marian"), toy_pairs(9, seed), "toy", SILENT).digest() for seed in (0, 0, 1)]
    assert digests[0] == digests[1] != digests[2]
