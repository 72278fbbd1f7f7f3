"""The fused loss against torch's own, and its gradients against numeric differences."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from lacuna.models.training import loss as loss_module
from lacuna.models.training.loss import lexical_loss, smoothed_cross_entropy, summed_negative_log_likelihood


def make_case(rows: int, dimension: int = 5, vocabulary: int = 11) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    states = torch.randn(rows, dimension, dtype=torch.float64, generator=generator, requires_grad=True)
    weight = torch.randn(vocabulary, dimension, dtype=torch.float64, generator=generator, requires_grad=True)
    return states, weight, torch.randint(vocabulary, (rows,), generator=generator)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("rows", [1, 7, 300])  # below, within, and above one block
def test_value_and_gradients_equal_torchs_cross_entropy(rows: int, smoothing: float) -> None:
    states, weight, target = make_case(rows)
    expected = F.cross_entropy(states @ weight.T, target, label_smoothing=smoothing)
    expected_gradients = torch.autograd.grad(expected, (states, weight))
    got, _ = smoothed_cross_entropy(states, weight, target, smoothing)
    got_gradients = torch.autograd.grad(got, (states, weight))
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(got_gradients, expected_gradients)


def test_second_result_is_the_plain_likelihood_whatever_the_smoothing() -> None:
    states, weight, target = make_case(9)
    expected = F.cross_entropy(states @ weight.T, target)
    torch.testing.assert_close(smoothed_cross_entropy(states, weight, target, 0.3)[1], expected.detach())


def test_gradients_agree_with_finite_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_module, "_BLOCK", 2)
    states, weight, target = make_case(5)
    assert torch.autograd.gradcheck(lambda s, w: smoothed_cross_entropy(s, w, target, 0.2)[0], (states, weight))


def test_uniform_model_loses_log_of_vocabulary() -> None:
    zero = torch.zeros(4, 3)
    total = summed_negative_log_likelihood(zero, torch.zeros(8, 3), torch.tensor([0, 3, 5, 7]))
    assert total == pytest.approx(4 * 2.0794415)  # ln 8, by hand


def test_lexical_loss_equals_ibm_model_1_by_loops() -> None:
    generator = torch.Generator().manual_seed(5)
    encoded = torch.randn(3, 4, 6, dtype=torch.float64, generator=generator, requires_grad=True)
    weight = torch.randn(9, 6, dtype=torch.float64, generator=generator)
    real = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]])
    sentences = [[2, 5, 2], [7], [5, 8]]
    target = torch.tensor([word for sentence in sentences for word in sentence])
    owners = torch.tensor([number for number, sentence in enumerate(sentences) for _ in sentence])
    candidates = sorted({word for sentence in sentences for word in sentence})
    counts = torch.tensor([target.tolist().count(word) for word in candidates], dtype=torch.float64)
    mean = torch.stack([encoded[n, place] for n in range(3) for place in range(4) if real[n, place]]).mean(0)
    losses = []
    for number, sentence in enumerate(sentences):
        states = [encoded[number, place] - mean for place in range(4) if real[number, place]]
        for word in sentence:
            likes = [counts * (weight[candidates] @ state).exp() for state in states]  # frequency times likeness
            shares = [like[candidates.index(word)] / like.sum() for like in likes]
            losses.append(-torch.stack(shares).mean().log())
    expected = torch.stack(losses).mean()
    got = lexical_loss(encoded, real, weight, target, owners)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(torch.autograd.grad(got, encoded), torch.autograd.grad(expected, encoded))


def test_lexical_loss_without_a_mask_counts_every_position() -> None:
    encoded = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(6))
    arguments = (torch.eye(4), torch.tensor([0, 1, 3]), torch.tensor([0, 0, 1]))
    masked = lexical_loss(encoded, torch.ones(2, 3, dtype=torch.long), *arguments)
    torch.testing.assert_close(lexical_loss(encoded, None, *arguments), masked)
