"""The fresh network: the encoder must still tell its positions apart at the top, or the source is never listened to."""

from __future__ import annotations

import numpy as np
import torch

from lacuna.models.training.data import Tokens, make_batch
from lacuna.models.training.loss import batch_loss, lexical_loss, marian_forward
from lacuna.models.training.network import make_network, make_optimizer
from lacuna.models.training.settings import Shape, TrainSettings


def test_fresh_encoder_keeps_positions_apart() -> None:
    torch.manual_seed(0)
    network = make_network(Shape(), 600, 0, 599, dropout=0.0)
    source = torch.randint(1, 598, (8, 12), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        states = network.model.encoder(input_ids=source).last_hidden_state.flatten(0, 1)
    own_share = states.var(0).sum() / states.square().sum(1).mean()  # 0 if all states are the same
    assert own_share > 0.4


def test_scaled_embeddings_are_as_large_as_positions() -> None:
    torch.manual_seed(0)
    network = make_network(Shape(), 600, 0, 599, dropout=0.0)
    embeddings = network.get_input_embeddings().weight[:599] * 256**0.5
    positions = network.model.encoder.embed_positions.weight
    assert 0.5 < (embeddings.square().mean() / positions.square().mean()).sqrt().item() < 2


def test_weight_decay_spares_biases_and_norms_and_positions_stay() -> None:
    network = make_network(Shape(1, 1, 32, 64, 2), 400, 0, 399, dropout=0.0)
    decayed, spared = make_optimizer(network, TrainSettings(steps=1, weight_decay=0.1)).param_groups
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.1, 0.0)
    assert all(weight.ndim == 2 for weight in decayed["params"])
    assert all(weight.ndim == 1 for weight in spared["params"])
    trained = sum(weight.numel() for group in (decayed, spared) for weight in group["params"])
    positions = 2 * 256 * 32
    assert trained == sum(weight.numel() for weight in network.parameters()) - positions


def test_separate_vocabularies_have_two_embeddings_and_predict_with_that_of_the_target() -> None:
    torch.manual_seed(0)
    network = make_network(Shape(1, 1, 32, 64, 2), 400, 0, 399, dropout=0.0, joint=False)
    source, target = network.model.encoder.embed_tokens.weight, network.model.decoder.embed_tokens.weight
    assert network.lm_head.weight is target
    assert not torch.equal(source, target)
    tokens = Tokens(np.asarray([5, 6, 0, 7, 8, 0, 9, 0, 10, 11, 12, 0], np.uint16), np.asarray([0, 3, 6, 8, 12]))
    batch = make_batch(tokens, np.asarray([0, 1]), 399)
    with torch.no_grad():
        without, _ = batch_loss(marian_forward(network), batch, 0.1)
        whole, _ = batch_loss(marian_forward(network), batch, 0.1, lexical_weight=2)
        encoded = network.model.encoder(input_ids=batch.source, attention_mask=batch.source_mask).last_hidden_state
        owners = torch.tensor([0] * 3 + [1] * 4)
        expected = lexical_loss(encoded, batch.source_mask, target, batch.target, owners)
    torch.testing.assert_close(whole - without, 2 * expected)
