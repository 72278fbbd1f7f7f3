"""The loss, against transformers' own loss and plain computations on its logits."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from lacuna.models.adapter import Model
from lacuna.models.training.loss import batch_loss, batch_negative_log_likelihood, model_forward
from lacuna.models.training.network import set_dropout
from unit.models.tiny_models import SOURCES, TARGETS, Zoo
from unit.models.training.toy import toy_batch, trainable

IGNORED = -100


def filled(rows: list[list[int]], filler: int) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[filler] * (longest - len(row))] for row in rows])


def reference_output(model: Model) -> Any:
    """What transformers makes of the same pairs, labels and all."""
    sources, targets = model.encode_sources(SOURCES), model.encode_targets(TARGETS)
    forced = len(model.start_ids) - 1
    ids = filled(sources, model.pad_id)
    return model.hf(
        input_ids=ids,
        attention_mask=filled([[1] * len(source) for source in sources], 0),
        decoder_input_ids=filled([[*model.start_ids, *target[:-1]] for target in targets], model.pad_id),
        labels=filled([[*[IGNORED] * forced, *target] for target in targets], IGNORED),
        use_cache=False,
    )


def test_loss_and_gradients_are_those_of_transformers(zoo: Zoo, kind: str) -> None:
    ours, theirs = trainable(zoo.model(kind)), trainable(zoo.model(kind))
    loss, likelihood = batch_loss(model_forward(ours), toy_batch(ours), 0.0)
    expected = reference_output(theirs).loss
    torch.testing.assert_close(loss, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(likelihood, expected, atol=1e-5, rtol=1e-5)
    loss.backward()
    expected.backward()
    compared = 0
    for (name, mine), (_, other) in zip(ours.hf.named_parameters(), theirs.hf.named_parameters(), strict=True):
        if mine.grad is not None and "embed_positions" not in name:
            compared += 1
            torch.testing.assert_close(mine.grad, other.grad, atol=2e-5, rtol=1e-4, msg=lambda text, n=name: n + text)
    assert compared > 20


def test_smoothing_spreads_a_share_over_the_vocabulary(zoo: Zoo, kind: str) -> None:
    model = zoo.model(kind)
    with torch.no_grad():
        loss, likelihood = batch_loss(model_forward(model), toy_batch(model), 0.1)
        logits = reference_output(model).logits.double()
    forced, targets = len(model.start_ids) - 1, model.encode_targets(TARGETS)
    rows = torch.cat([logits[n, forced : forced + len(target)] for n, target in enumerate(targets)])
    log_p = rows.log_softmax(-1)
    gold = log_p[torch.arange(len(rows)), torch.tensor([token for target in targets for token in target])]
    assert float(loss) == pytest.approx(float(-(0.9 * gold + 0.1 * log_p.mean(-1)).mean()), abs=1e-5)
    assert float(likelihood) == pytest.approx(float(-gold.mean()), abs=1e-5)
    assert batch_negative_log_likelihood(model_forward(model), toy_batch(model)) == pytest.approx(
        float(-gold.sum()), rel=1e-5
    )


def test_a_bias_counts_and_no_bias_costs_nothing(zoo: Zoo) -> None:
    model = zoo.load("marian")
    assert model.projection.bias is not None
    with_bias = batch_negative_log_likelihood(model_forward(model), toy_batch(model))
    model.projection.bias.zero_()
    assert batch_negative_log_likelihood(model_forward(model), toy_batch(model)) != pytest.approx(with_bias, rel=1e-3)


def test_training_mode_reaches_every_part(zoo: Zoo, kind: str) -> None:
    """Also FSMT's decoder, which is a twin of the real one."""
    model = zoo.load(kind)
    still = [batch_negative_log_likelihood(model_forward(model), toy_batch(model)) for _ in range(2)]
    assert still[0] == still[1]
    model.hf.train()
    model.hf.get_encoder().train(False)
    moving = [batch_negative_log_likelihood(model_forward(model), toy_batch(model)) for _ in range(2)]
    assert moving[0] != moving[1]


def test_no_dropout_is_no_noise(zoo: Zoo, kind: str) -> None:
    model = zoo.load(kind)
    still = batch_negative_log_likelihood(model_forward(model), toy_batch(model))
    set_dropout(model.hf, 0.0)
    for module in model.hf.modules():
        if "Attention" in type(module).__name__ and isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0  # type: ignore[assignment]
        if isinstance(getattr(module, "layerdrop", None), float):
            module.layerdrop = 0.0  # type: ignore[assignment]
    model.hf.train()
    assert batch_negative_log_likelihood(model_forward(model), toy_batch(model)) == pytest.approx(still, rel=1e-6)
    set_dropout(model.hf, 0.5)
    torch.manual_seed(1)
    assert batch_negative_log_likelihood(model_forward(model), toy_batch(model)) != pytest.approx(still, rel=1e-6)
