"""What all tests share."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:  # torch takes seconds to import, which tests without a model need not wait for
    from lacuna.models import Model
    from unit.models.tiny_models import Zoo

# Test workers share the cores; threads of OpenMP that wait for each other would slow them down.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Shells start background jobs with Ctrl-C ignored, which the tests of Ctrl-C and their child processes would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no counter-example: speed belongs in benchmarks/, so no example has a deadline.
settings.register_profile("lacuna", deadline=None, print_blob=True)
settings.load_profile("lacuna")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what Windows does not have."""
    if sys.platform == "win32":
        for item in items:
            if item.get_closest_marker("posix"):
                item.add_marker(pytest.mark.skip(reason="needs signals, fork or a shell"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test with a model once for each of the ``MODEL_KINDS`` of its module."""
    kinds = getattr(metafunc.module, "MODEL_KINDS", None)
    if kinds is not None and "model" in metafunc.fixturenames:
        metafunc.parametrize("model", kinds, indirect=True, scope="session")


@pytest.fixture(autouse=True, scope="session")
def _no_cache_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what commands cache out of the home folder."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    """Tiny models of every kind; tests must not change their folders."""
    from unit.models.tiny_models import Zoo

    return Zoo(tmp_path_factory.mktemp("zoo"))


@pytest.fixture(scope="session")
def model(zoo: Zoo, request: pytest.FixtureRequest) -> Model:
    """A tiny model with random weights: Marian, or each of the ``MODEL_KINDS`` of the module."""
    return zoo.model(getattr(request, "param", "marian"))


@pytest.fixture(scope="session")
def model_folder(zoo: Zoo) -> Path:
    """The folder of a tiny Marian model."""
    return zoo.folder("marian")


@pytest.fixture(scope="session")
def bundled() -> Model:
    """The bundled model, de-en."""
    from lacuna.models import load_model

    return load_model(device="cpu")
