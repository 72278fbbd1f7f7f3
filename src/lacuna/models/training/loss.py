"""The label-smoothed cross-entropy of an output projection, without ever holding batch x vocabulary gradients.

The gradient of the loss by the logits is known in closed form (softmax minus smoothed target), so the forward
pass computes it block by block while the block is still in cache, and the backward pass only scales the result.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

_BLOCK = 256  # rows; 256 x 8k floats stay within a common L3 cache


class _FusedCrossEntropy(torch.autograd.Function):
    """Mean loss over rows; gradients for the states and the projection's weight."""

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
        # Where only adapters are trained, nobody asks for it.
        weight_gradient = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        gold_loss = states.new_zeros(())
        even_loss = states.new_zeros(())
        buffer = states.new_empty(min(_BLOCK, rows), vocabulary)
        for start in range(0, rows, _BLOCK):
            block, gold = states[start : start + _BLOCK], target[start : start + _BLOCK, None]
            logits = torch.mm(block, weight.T, out=buffer[: len(block)])
            normalizer = torch.logsumexp(logits, dim=1, keepdim=True)
            gold_loss += (normalizer - logits.gather(1, gold)).sum()
            if smoothing:
                even_loss += (normalizer[:, 0] * vocabulary - logits.sum(1)).sum()
            gradient = logits.sub_(normalizer).exp_()
            if smoothing:
                gradient.sub_(smoothing / vocabulary)
            gradient.scatter_add_(1, gold, gradient.new_full(gold.shape, smoothing - 1.0))
            torch.mm(gradient, weight, out=states_gradient[start : start + _BLOCK])
            if weight_gradient is not None:
                weight_gradient.addmm_(gradient.T, block)
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

    :param states: What enters the output projection, real positions only: (tokens, dimension).
    :param weight: The output projection: (vocabulary, dimension).
    :param smoothing: The share of the target that is spread evenly over the vocabulary.
    """
    loss, gold = _FusedCrossEntropy.apply(states, weight, target, smoothing)  # type: ignore[no-untyped-call]
    return loss, gold


def lexical_loss(
    encoded: torch.Tensor, real: torch.Tensor | None, weight: torch.Tensor, target: torch.Tensor, owners: torch.Tensor
) -> torch.Tensor:
    """Return how badly the encoder's states, each for itself, foretell the words of the translation.

    ``p(word | sentence)`` is the mean over source positions of a softmax: IBM model 1 with a neural lexicon. It needs
    no alignment to learn from, and leaves states that hold the translations of their words where the decoder can
    find them; without it a small model spends most of a short training as a language model that ignores its source.
    Only the batch's own target words compete, which makes it cheap.

    States are taken relative to their mean, and words start from their frequency in the batch. Otherwise the states
    would first learn those frequencies, all the same ones, and the encoder would die of it.

    :param encoded: The encoder's states: (pairs, source length, dimension).
    :param real: The mask of real source positions, None where all are: (pairs, source length).
    :param weight: The output projection: (vocabulary, dimension).
    :param target: The words to foretell: (tokens,).
    :param owners: The pair that each of them belongs to: (tokens,).
    """
    candidates, places, counts = torch.unique(target, return_inverse=True, return_counts=True)
    mask = torch.ones(encoded.shape[:2], device=encoded.device) if real is None else real.to(encoded.dtype)
    lengths = mask.sum(1)
    mean = (encoded * mask[:, :, None]).sum((0, 1)) / lengths.sum()
    scores = (encoded - mean) @ weight[candidates].T + counts.log().to(encoded.dtype)  # (pairs, source, candidates)
    shares = scores.log_softmax(-1).masked_fill(mask[:, :, None] == 0, -torch.inf)
    foretold: torch.Tensor = shares.logsumexp(1)[owners, places] - lengths[owners].log()
    return -foretold.mean()


@torch.no_grad()
def summed_negative_log_likelihood(states: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> float:
    """Return the plain loss summed over all rows, block by block."""
    total = 0.0
    for start in range(0, len(states), _BLOCK):
        logits = states[start : start + _BLOCK] @ weight.T
        total += float(F.cross_entropy(logits, target[start : start + _BLOCK], reduction="sum"))
    return total
