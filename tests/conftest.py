"""What all tests share."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from commands import PROGRESS, Attempt, Ended, Refusal, Refuse, Run, snapshot

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
        patched.setenv("LACUNA_CACHE", str(tmp_path_factory.mktemp("cache")))
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


@pytest.fixture
def attempt(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Attempt:
    from lacuna.cli.main import main

    def attempt(command: str | Sequence[str], folder: Path | None = None) -> Ended:
        if folder is not None:
            monkeypatch.chdir(folder)
        monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1")  # `train` would start itself again
        monkeypatch.setattr("sys.argv", ["lacuna", *(shlex.split(command) if isinstance(command, str) else command)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        return Ended(int(ended.value.code or 0), *capfd.readouterr())

    return attempt


@pytest.fixture
def run(attempt: Attempt) -> Run:
    def run(command: str | Sequence[str], folder: Path | None = None) -> str:
        code, out, err = attempt(command, folder)
        assert code == 0, err
        return out

    return run


@pytest.fixture
def refuse(attempt: Attempt) -> Refuse:
    def refuse(command: str | Sequence[str], folder: Path) -> Refusal:
        before = snapshot(folder)
        code, out, err = attempt(command, folder)
        *progress, line = err.splitlines() or [""]
        assert code == 2, (out, err)
        assert line.startswith("lacuna: "), err
        assert all(PROGRESS.fullmatch(each) for each in progress), err
        assert snapshot(folder) == before
        return Refusal(line, out)

    return refuse
