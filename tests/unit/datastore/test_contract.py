"""A store holds what the model says when it reads one sentence at a time, for every kind of model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from lacuna.datastore import build_store, compare_predictions, verify_store
from lacuna.models import Model
from lacuna.records import Origin, SentencePair
from unit.models.tiny_models import KINDS, SOURCES, TARGETS, Zoo

PAIRS = [
    SentencePair(source, target, Origin("tiny", str(place + 1)))
    for place, (source, target) in enumerate(
        zip(SOURCES * 3, [*TARGETS, *TARGETS[::-1], *TARGETS[1:], "yes"], strict=True)
    )
]


def naive(model: Model) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Keys, values, predictions, log-probabilities, entropies: one sentence, one decoder call, plain softmax."""
    columns: list[list[np.ndarray]] = [[], [], [], [], []]
    for pair in PAIRS:
        source, target = model.encode_sources([pair.source]), model.encode_targets([pair.target])[0]
        encoded, mask = model.encode(source)
        with torch.inference_mode():
            states = model.decoder(
                input_ids=torch.tensor([[*model.start_ids, *target[:-1]]]),
                encoder_hidden_states=encoded,
                encoder_attention_mask=mask,
                use_cache=False,
            ).last_hidden_state[0, len(model.start_ids) - 1 :]
        logits = model.project(states).double().numpy()
        p = np.exp(logits - logits.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        gold = p[np.arange(len(target)), target]
        parts = (states.numpy(), np.array(target), logits.argmax(-1), np.log(gold), -(p * np.log(p)).sum(-1))
        for column, part in zip(columns, parts, strict=True):
            column.append(part)
    keys, values, predictions, log_p, entropy = (np.concatenate(column) for column in columns)
    return keys, values, predictions, log_p, entropy


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_store_equals_naive_teacher_forcing(kind: str, zoo: Zoo, tmp_path: Path) -> None:
    model = zoo.model(kind)
    store = build_store(model, PAIRS, tmp_path / "store", cleaning=None, batch_tokens=40, shard_rows=60)
    keys, values, predictions, log_p, entropy = naive(model)
    stored = store.keys.gather(np.arange(store.entries))
    assert stored.dtype == np.float16
    # Half precision keeps 11 bits.
    np.testing.assert_allclose(stored.astype(np.float32), keys, rtol=2**-10, atol=1e-4)
    assert store.values.tolist() == values.tolist()
    assert store.predictions.tolist() == predictions.tolist()
    assert store.known.tolist() == (values == predictions).tolist()
    np.testing.assert_allclose(store.log_p_gold, log_p, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(store.entropy, entropy, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(store.mean, keys.mean(axis=0), atol=1e-3)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_predictions_come_back_from_the_stored_keys(kind: str, zoo: Zoo, tmp_path: Path) -> None:
    model = zoo.model(kind)
    store = build_store(model, PAIRS, tmp_path / "store")
    report = compare_predictions(store, model.predict)
    # Two tokens may be nearer to each other than half precision can tell.
    assert (report.entries, report.mismatches) in {(store.entries, 0), (store.entries, 1)}
    other = compare_predictions(store, lambda keys: (model.predict(keys) + 1) % model.vocabulary_size)
    assert other.mismatches >= store.entries - 1
    assert report.sound
    assert not other.sound


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_one_entry_for_each_target_token_and_the_end(kind: str, zoo: Zoo, tmp_path: Path) -> None:
    model = zoo.model(kind)
    store = build_store(model, PAIRS, tmp_path / "store", cleaning=None, shard_rows=50)
    targets = model.encode_targets([pair.target for pair in PAIRS])
    assert store.entries == sum(map(len, targets))
    assert store.sentence.tolist() == [n for n, target in enumerate(targets) for _ in target]
    assert store.position.tolist() == [place for target in targets for place in range(len(target))]
    assert np.count_nonzero(store.values == model.eos_id) == len(PAIRS)
    assert list(store.sentences) == PAIRS
    assert verify_store(store.path).problems == ()
    store.check_model(model)
