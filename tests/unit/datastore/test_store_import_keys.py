"""Kinds of keys: telling them apart for every kind of model, and carrying one to the other where that can be done."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.datastore.importing.importer import ImportCheck
from lacuna.datastore.importing.sentences import sentence_ends
from lacuna.errors import ModelError
from unit.datastore.foreign_stores import PAIRS, mark_norms, read_pairs
from unit.models.tiny_models import KINDS, Zoo

NORMALIZED_LAST = {"marian", "marian-separate", "marian-many", "fsmt", "bart"}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_key_tells_its_kind(kind: str, zoo: Zoo) -> None:
    model = zoo.load(kind)
    mark_norms(model)
    table = read_pairs(model, PAIRS[:4])
    for name, keys in (("out", table.out), ("ffn_in", table.ffn_in)):
        other = "ffn_in" if name == "out" else "out"
        stored = keys.astype(np.float16).astype(np.float32)
        assert model.matches_key_kind(name, stored).all()
        assert model.matches_key_kind(other, stored).mean() < 0.5


@pytest.mark.parametrize("kind", sorted(NORMALIZED_LAST))
def test_ffn_in_keys_are_carried_to_the_out_keys_of_the_same_pass(kind: str, zoo: Zoo) -> None:
    model = zoo.load(kind)
    mark_norms(model)
    table = read_pairs(model)
    np.testing.assert_allclose(model.apply_last_ffn(table.ffn_in), table.out, atol=1e-5)
    assert not np.allclose(table.ffn_in, table.out, atol=0.1)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - NORMALIZED_LAST))
def test_models_that_normalize_first_are_refused(kind: str, zoo: Zoo) -> None:
    model = zoo.model(kind)
    with pytest.raises(ModelError, match="before the norm"):
        model.apply_last_ffn(np.ones((2, model.dimension), dtype=np.float32))


def test_judging_keys_equals_the_plain_computation(zoo: Zoo) -> None:
    model = zoo.model("marian")
    table = read_pairs(model)
    predictions, log_p, entropy = model.score_keys(table.out, table.values)
    weight, bias = model.projection.weight.double().numpy(), model.projection.bias.double().numpy()  # type: ignore[union-attr]
    logits = table.out.astype(np.float64) @ weight.T + bias
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    assert predictions.tolist() == p.argmax(-1).tolist()
    np.testing.assert_allclose(log_p, np.log(p[np.arange(len(p)), table.values]), atol=1e-4)
    np.testing.assert_allclose(entropy, -(p * np.log(p)).sum(-1), atol=1e-4)


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(1, 9))
def test_ends_of_sentences_equal_going_row_by_row(final: list[bool], longest: int) -> None:
    ends, length = [], 0
    for row, last in enumerate(final):
        length += 1
        if last or length == longest or row == len(final) - 1:
            ends.append(row + 1)
            length = 0
    assert sentence_ends(np.array(final), longest).tolist() == ends


def test_agreement_is_cohens_kappa() -> None:
    check = ImportCheck("model", "out", 4)
    check.add_entries(np.array([0, 0, 1]), np.array([0, 1, 1]))
    check.add_entries(np.array([2]), np.array([2]))
    # Three of four are right; by chance (2*1 + 1*2 + 1*1) / 16 = 5/16.
    assert check.agreement == pytest.approx((3 / 4 - 5 / 16) / (1 - 5 / 16))
    assert check.known == 3
