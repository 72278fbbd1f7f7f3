"""What is minimized: the label-smoothed cross-entropy of a model's own logits at the real target positions.

The encoder and decoder are the family's own, as in teacher forcing, here with gradients. Knows one batch at a time.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from lacuna.models.adapter import Model
from lacuna.models.training.data import Batch
from lacuna.models.training.loss import smoothed_cross_entropy, summed_negative_log_likelihood


def batch_loss(model: Model, batch: Batch, smoothing: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (loss to minimize, negative log-likelihood), means over the batch's real target tokens."""
    states, weight = _projected(model, batch)
    return smoothed_cross_entropy(states, weight, batch.target.to(model.device), smoothing)


@torch.no_grad()
def batch_negative_log_likelihood(model: Model, batch: Batch) -> float:
    """Return the plain loss of a batch, summed over its real target tokens."""
    states, weight = _projected(model, batch)
    return summed_negative_log_likelihood(states, weight, batch.target.to(model.device))


def _projected(model: Model, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Give states and weight whose plain product is the logits: scale and bias of the projection are folded in."""
    head = model.family.projection(model.hf)
    states = _states(model, batch)
    if head.scale != 1:
        states = states * head.scale
    if head.bias is None or not bool(head.bias.any()):
        return states, head.weight
    # The bias as one more column, which meets a constant 1.
    return F.pad(states, (0, 1), value=1.0), torch.cat([head.weight, head.bias[:, None]], dim=1)


def _states(model: Model, batch: Batch) -> torch.Tensor:
    """Run a batch: what enters the output projection at each real target position."""
    source = batch.source.to(model.device)
    mask = torch.ones_like(source) if batch.source_mask is None else batch.source_mask.to(model.device)
    encoded = model.hf.get_encoder()(input_ids=source, attention_mask=mask).last_hidden_state
    inputs, places = _start_with(batch, model.start_ids)
    # Not the model's cached decoder: FSMT's is a twin that keeps to the mode, training or not, it was made in.
    decoder = model.family.decoder(model.hf)
    states: torch.Tensor = decoder(
        input_ids=inputs.to(model.device), encoder_hidden_states=encoded, encoder_attention_mask=mask, use_cache=False
    ).last_hidden_state
    return states.flatten(0, 1).index_select(0, places.to(model.device))


def _start_with(batch: Batch, start_ids: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Put the family's start tokens where the batch has one of its own; the real positions move with them."""
    rows, width = batch.target_input.shape
    starts = torch.tensor(start_ids).expand(rows, -1)
    inputs = torch.cat([starts, batch.target_input[:, 1:]], dim=1)
    more = len(start_ids) - 1
    return inputs, batch.target_places + (batch.target_places // width + 1) * more


def set_dropout(network: nn.Module, dropout: float) -> None:
    """Use another dropout in every layer; that within attention and that of whole layers are settings of their own."""
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = dropout
        elif isinstance(getattr(module, "dropout", None), float) and "Attention" not in type(module).__name__:
            module.dropout = dropout  # type: ignore[assignment]
