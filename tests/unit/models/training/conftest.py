"""Fixtures: the tiny models of every supported kind."""

from __future__ import annotations

import pytest
import torch

from unit.models.tiny_models import KINDS, Zoo


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    torch.set_num_threads(1)
    return Zoo(tmp_path_factory.mktemp("zoo"))


@pytest.fixture(params=sorted(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)
