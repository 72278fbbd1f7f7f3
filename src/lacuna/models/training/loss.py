"""Training losses: label-smoothed cross-entropy, and an auxiliary lexical loss on the encoder states.

The cross-entropy never holds a gradient of size batch x vocabulary. Its gradient by the logits has a closed form
(softmax minus smoothed target), so the forward pass computes it block by block while the block is in cache, and the
backward pass only scales the result. Knows one batch at a time; nothing of optimizers or files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from transformers import MarianMTModel

from lacuna.models.adapter import Model
from lacuna.models.training.data import Batch

_BLOCK = 256  # rows; 256 x 8k floats stay within a common L3 cache


class _FusedCrossEntropy(torch.autograd.Function):
    """Mean loss over rows, with gradients for the states and the weight of the projection."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's own
        states: torch.Tensor,
        weight: torch.Tensor,
        target: torch.Tensor,
        smoothing: float,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rows, vocabulary = len(states), len(weight)
        states_gradient = torch.empty_like(states)
        # Not needed where only adapters are trained.
        weight_gradient = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        gold_loss = weight.new_zeros(())
        even_loss = weight.new_zeros(())
        # Products run in the type of the states, which may be bfloat16; sums and the softmax in that of the weight.
        cast_weight = weight.to(states.dtype)
        buffer = states.new_empty(min(_BLOCK, rows), vocabulary)
        for start in range(0, rows, _BLOCK):
            block, gold = states[start : start + _BLOCK], target[start : start + _BLOCK, None]
            logits = torch.mm(block, cast_weight.T, out=buffer[: len(block)]).to(weight.dtype)
            normalizer = torch.logsumexp(logits, dim=1, keepdim=True)
            gold_loss += (normalizer - logits.gather(1, gold)).sum()
            if smoothing:
                even_loss += (normalizer[:, 0] * vocabulary - logits.sum(1)).sum()
            gradient = logits.sub_(normalizer).exp_()
            if smoothing:
                gradient.sub_(smoothing / vocabulary)
            gradient.scatter_add_(1, gold, gradient.new_full(gold.shape, smoothing - 1.0))
            gradient = gradient.to(states.dtype)
            torch.mm(gradient, cast_weight, out=states_gradient[start : start + _BLOCK])
            if weight_gradient is not None:
                weight_gradient += gradient.T @ block
        ctx.save_for_backward(
            states_gradient.div_(rows), None if weight_gradient is None else weight_gradient.div_(rows)
        )
        gold_mean = gold_loss / rows
        ctx.mark_non_differentiable(gold_mean)
        return gold_mean * (1 - smoothing) + even_loss * (smoothing / vocabulary / rows), gold_mean

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None, None, None]:  # noqa: ANN401
        states_gradient, weight_gradient = ctx.saved_tensors
        scale = gradients[0]
        of_weight = None if weight_gradient is None else weight_gradient * scale
        return states_gradient * scale, of_weight, None, None


def smoothed_cross_entropy(
    states: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, smoothing: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (loss to minimize, plain negative log-likelihood), both means over the rows.

    :param states: Input of the output projection, without padding: (tokens, dimension).
    :param weight: Output projection: (vocabulary, dimension).
    :param smoothing: Share of the target distribution that is spread evenly over the vocabulary.
    """
    loss, gold = _FusedCrossEntropy.apply(states, weight, target, smoothing)  # type: ignore[no-untyped-call]
    return loss, gold


def lexical_loss(
    encoded: torch.Tensor, real: torch.Tensor | None, weight: torch.Tensor, target: torch.Tensor, owners: torch.Tensor
) -> torch.Tensor:
    """Return the loss of predicting the target words from each encoder state alone.

    ``p(word | sentence)`` is the mean over source positions of a softmax: IBM model 1 with a neural lexicon. It needs
    no alignment, and makes encoder states hold the translations of their words, where the decoder can find them.
    Without it, a small model spends most of a short training as a language model that ignores its source. Only the
    target words of the batch compete, which makes the loss cheap.

    States are centered, and words start from their frequency in the batch. Otherwise all states would first learn
    these frequencies and become equal.

    :param encoded: Encoder states: (pairs, source length, dimension).
    :param real: Mask of source positions without padding, or None: (pairs, source length).
    :param weight: Output projection: (vocabulary, dimension).
    :param target: Target words: (tokens,).
    :param owners: The pair of each target word: (tokens,).
    """
    candidates, places, counts = torch.unique(target, return_inverse=True, return_counts=True)
    mask = torch.ones(encoded.shape[:2], device=encoded.device) if real is None else real.to(encoded.dtype)
    lengths = mask.sum(1)
    mean = (encoded * mask[:, :, None]).sum((0, 1)) / lengths.sum()
    scores = (encoded - mean) @ weight[candidates].T + counts.log().to(encoded.dtype)  # (pairs, source, candidates)
    shares = scores.log_softmax(-1).masked_fill(mask[:, :, None] == 0, -torch.inf)
    log_p: torch.Tensor = shares.logsumexp(1)[owners, places] - lengths[owners].log()
    return -log_p.mean()


@torch.no_grad()
def summed_negative_log_likelihood(states: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> float:
    """Return the negative log-likelihood, summed over all rows, block by block."""
    total = 0.0
    for start in range(0, len(states), _BLOCK):
        logits = states[start : start + _BLOCK] @ weight.T
        total += float(F.cross_entropy(logits, target[start : start + _BLOCK], reduction="sum"))
    return total


@dataclass(frozen=True, slots=True)
class Forward:
    """Output of a network for one batch.

    :param states: Input of the output projection at each target token: (tokens, dimension).
    :param weight: Output projection: (vocabulary, dimension). Scale and bias are folded in.
    :param encoded: Encoder states: (pairs, source length, dimension).
    """

    states: torch.Tensor
    weight: torch.Tensor
    encoded: torch.Tensor


Network = Callable[[Batch], Forward]


def batch_loss(
    network: Network, batch: Batch, smoothing: float, lexical_weight: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (loss to minimize, negative log-likelihood), means over the target tokens."""
    out = network(batch)
    loss, likelihood = smoothed_cross_entropy(out.states, out.weight, batch.target, smoothing)
    if lexical_weight:
        owners = batch.target_places // batch.target_input.shape[1]
        loss = loss + lexical_weight * lexical_loss(out.encoded, batch.source_mask, out.weight, batch.target, owners)
    return loss, likelihood


@torch.no_grad()
def batch_negative_log_likelihood(network: Network, batch: Batch) -> float:
    """Return the negative log-likelihood, summed over the target tokens."""
    out = network(batch)
    return summed_negative_log_likelihood(out.states, out.weight, batch.target)


def marian_forward(network: MarianMTModel, precision: str = "float32") -> Network:
    """Run a Marian network that is trained from scratch; it has neither scale nor bias.

    :param precision: Type of the matrix products of training steps. Evaluation always runs in float32.
    """
    dtype = getattr(torch, precision)

    def run(batch: Batch) -> Forward:
        lower = network.training and dtype != torch.float32
        with torch.autocast(batch.source.device.type, dtype=dtype, enabled=lower):
            output = network.model(
                input_ids=batch.source,
                attention_mask=batch.source_mask,
                decoder_input_ids=batch.target_input,
                use_cache=False,
            )
        states = output.last_hidden_state.flatten(0, 1).index_select(0, batch.target_places)
        return Forward(states, network.lm_head.weight, output.encoder_last_hidden_state)

    return run


def model_forward(model: Model) -> Network:
    """Run a model of any supported family, with its own start tokens, as in teacher forcing but with gradients."""

    def run(batch: Batch) -> Forward:
        mask = torch.ones_like(batch.source) if batch.source_mask is None else batch.source_mask
        encoded = model.hf.get_encoder()(input_ids=batch.source, attention_mask=mask).last_hidden_state
        inputs, places = _replace_start(batch, model.start_ids)
        # Not model.decoder, which is cached: FSMT's is a copy that keeps the train or eval mode it was made in.
        decoder = model.family.decoder(model.hf)
        output = decoder(
            input_ids=inputs, encoder_hidden_states=encoded, encoder_attention_mask=mask, use_cache=False
        ).last_hidden_state
        return Forward(*_fold_projection(model, output.flatten(0, 1).index_select(0, places)), encoded)

    return run


def _fold_projection(model: Model, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return states and a weight whose product is the logits, with the projection's scale and bias folded in."""
    head = model.family.projection(model.hf)
    if head.scale != 1:
        states = states * head.scale
    if head.bias is None or not bool(head.bias.any()):
        return states, head.weight
    # The bias becomes one more column, multiplied by a constant 1.
    return F.pad(states, (0, 1), value=1.0), torch.cat([head.weight, head.bias[:, None]], dim=1)


def _replace_start(batch: Batch, start_ids: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Replace the batch's single start token by the model's start tokens, and shift the target positions."""
    rows, width = batch.target_input.shape
    starts = torch.tensor(start_ids, device=batch.target_input.device).expand(rows, -1)
    inputs = torch.cat([starts, batch.target_input[:, 1:]], dim=1)
    added = len(start_ids) - 1
    return inputs, batch.target_places + (batch.target_places // width + 1) * added
