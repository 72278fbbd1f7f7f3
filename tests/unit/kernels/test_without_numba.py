"""Kernels are an extra: without numba there are none, and nothing else is missing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from lacuna import kernels as package
from lacuna.decoding import BeamSettings, search
from lacuna.errors import ModelError
from lacuna.kernels import load_kernels
from lacuna.models.stepping import ModelScorer
from lacuna.models.top_tokens import top_k
from unit.models.tiny_models import SOURCES, Zoo


@pytest.fixture
def _no_numba(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(package, "find_spec", lambda name: None)
    load_kernels.cache_clear()
    yield
    load_kernels.cache_clear()


@pytest.mark.usefixtures("_no_numba")
def test_the_largest_numbers_are_found_by_torch() -> None:
    assert load_kernels() is None
    numbers = torch.from_numpy(np.random.default_rng(1).standard_normal((4, 3000)).astype(np.float32))
    assert torch.equal(top_k(numbers, 10)[1], numbers.topk(10).indices)


@pytest.mark.usefixtures("_no_numba")
def test_models_run_in_torch_and_only_rounded_weights_are_refused(zoo: Zoo) -> None:
    model = zoo.load("marian")
    sources, settings = model.encode_sources(SOURCES), BeamSettings(2, max_new_tokens=6)
    found, exact = (
        search(ModelScorer(model, engine=engine, int8=int8), sources, settings)
        for engine, int8 in ((None, None), ("torch", False))
    )
    assert found == exact
    with pytest.raises(ModelError, match=r"int8: .* cannot run with 8-bit weights here"):
        ModelScorer(model, int8=True)
