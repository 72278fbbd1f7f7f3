"""Position embeddings against those of transformers."""

from __future__ import annotations

import pytest
import torch
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

from lacuna.models.sinusoids import fast_sinusoids, sinusoids


@pytest.mark.parametrize(("positions", "width"), [(1, 2), (64, 16), (256, 256), (200, 512), (33, 10), (7, 5)])
def test_every_bit_is_that_of_transformers(positions: int, width: int) -> None:
    embedding = MarianSinusoidalPositionalEmbedding(positions, width)
    expected = embedding.create_weight()
    assert torch.equal(sinusoids(positions, width), expected)
    with fast_sinusoids():
        assert torch.equal(embedding.create_weight(), expected)


def test_transformers_is_left_as_it_was() -> None:
    before = MarianSinusoidalPositionalEmbedding.create_weight
    with pytest.raises(ZeroDivisionError), fast_sinusoids():
        raise ZeroDivisionError
    assert MarianSinusoidalPositionalEmbedding.create_weight is before
