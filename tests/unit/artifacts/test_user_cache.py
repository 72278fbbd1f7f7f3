from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from lacuna.artifacts.user_cache import cache_folder, user_cache


@pytest.fixture
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("LACUNA_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)


@pytest.mark.usefixtures("_own_home")
@pytest.mark.parametrize(
    ("platform", "place"), [("linux", ".cache"), ("darwin", "Library/Caches"), ("win32", "AppData/Local")]
)
def test_each_system_has_its_own_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, platform: str, place: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "AppData" / "Local"))
    assert user_cache() == tmp_path / place / "lacuna"


@pytest.mark.usefixtures("_own_home")
def test_variables_name_another_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert user_cache() == tmp_path / "xdg" / "lacuna"
    monkeypatch.setenv("LACUNA_CACHE", str(tmp_path / "ours"))
    assert user_cache() == tmp_path / "ours"


@pytest.mark.usefixtures("_own_home")
def test_a_part_of_the_cache_is_created(tmp_path: Path) -> None:
    folder = cache_folder("facts")
    assert folder == user_cache() / "facts"
    assert folder.is_dir()
    assert cache_folder("facts") == folder


def test_an_empty_variable_means_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LACUNA_CACHE", "")
    assert cache_folder("facts") is None


def test_a_cache_that_cannot_be_created_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LACUNA_CACHE", str(tmp_path / "file"))
    assert cache_folder("facts") is None


def test_a_cache_that_cannot_be_written_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LACUNA_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # the superuser may write everywhere
    assert cache_folder("facts") is None


@pytest.mark.usefixtures("_own_home")
def test_without_a_home_there_is_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    assert cache_folder("facts") is None
