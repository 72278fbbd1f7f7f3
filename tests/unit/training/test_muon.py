"""Muon against the singular value decomposition it approximates, and as an optimizer on a problem with a known end."""

from __future__ import annotations

import pytest
import torch

from lacuna.models.training.muon import Muon, orthogonalize


@pytest.mark.parametrize("shape", [(3, 16, 16), (2, 32, 8), (2, 8, 32)])
def test_result_has_the_singular_vectors_and_singular_values_near_one(shape: tuple[int, int, int]) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    found = orthogonalize(matrices)
    assert found.shape == matrices.shape
    for matrix, result in zip(matrices, found, strict=True):
        left, _, right = torch.linalg.svd(matrix.double(), full_matrices=False)
        turned = left.T @ result.double() @ right.T  # diagonal if the singular vectors are kept
        off_diagonal = turned - torch.diag(turned.diagonal())
        assert off_diagonal.abs().max() < 1e-3
        assert turned.diagonal().min() > 0.3
        assert turned.diagonal().max() < 1.3


def test_batched_equals_one_by_one() -> None:
    matrices = torch.randn(4, 6, 9, generator=torch.Generator().manual_seed(1))
    single = torch.cat([orthogonalize(matrix[None]) for matrix in matrices])
    torch.testing.assert_close(orthogonalize(matrices), single)


def test_it_finds_the_minimum_of_a_quadratic() -> None:
    generator = torch.Generator().manual_seed(2)
    goal = torch.randn(8, 5, generator=generator)
    weight = torch.zeros(8, 5, requires_grad=True)
    optimizer = Muon([weight], lr=0.1)
    for step in range(400):
        optimizer.param_groups[0]["lr"] = 0.1 * (1 - step / 400)
        optimizer.zero_grad()
        ((weight - goal) ** 2).sum().backward()
        optimizer.step()
    assert (weight - goal).abs().max() < 0.05


def test_first_step_has_adams_size() -> None:
    weight = torch.zeros(64, 64, requires_grad=True)
    weight.grad = torch.randn(64, 64, generator=torch.Generator().manual_seed(3))
    Muon([weight], lr=1.0).step()
    assert weight.detach().square().mean().sqrt().item() == pytest.approx(0.2, rel=0.25)
