"""The tiny models that all tests of fitting use."""

from __future__ import annotations

import pytest
import torch

from lacuna.models import Model
from unit.models.tiny_models import Zoo


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    torch.set_num_threads(1)
    return Zoo(tmp_path_factory.mktemp("zoo"))


@pytest.fixture(scope="session")
def model(zoo: Zoo) -> Model:
    return zoo.model("marian")
