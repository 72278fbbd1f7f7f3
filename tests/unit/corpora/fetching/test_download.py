import subprocess
from pathlib import Path

import pytest

from lacuna.artifacts.files import sha256_of
from lacuna.corpora.fetching import wheels as download
from lacuna.corpora.fetching.registry import load_registry
from lacuna.corpora.fetching.wheels import default_cache, gather_wheels, pip_download
from lacuna.errors import FetchError

from .conftest import Shelf


def test_what_is_cached_is_not_fetched_again(shelf: Shelf, tmp_path: Path) -> None:
    first = gather_wheels(shelf.packages, tmp_path, shelf.download)
    assert gather_wheels(shelf.packages, tmp_path, shelf.download) == first
    assert shelf.asked == ["app", "home"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in first.values())


def test_a_damaged_file_is_fetched_again(shelf: Shelf, tmp_path: Path) -> None:
    paths = gather_wheels(shelf.packages, tmp_path, shelf.download)
    paths["app"].write_bytes(shelf.wheels["app"][:-1])
    gather_wheels(shelf.packages, tmp_path, shelf.download)
    assert shelf.asked == ["app", "home", "app"]
    assert sha256_of(paths["app"]) == shelf.packages[0].sha256


def test_an_interrupted_fetch_goes_on_where_it_was(shelf: Shelf, tmp_path: Path) -> None:
    shelf.fails_at = "home"
    with pytest.raises(KeyboardInterrupt):
        gather_wheels(shelf.packages, tmp_path, shelf.download)
    shelf.fails_at = ""
    gather_wheels(shelf.packages, tmp_path, shelf.download)
    assert shelf.asked == ["app", "home", "home"]


def test_another_hash_is_refused_and_not_kept(shelf: Shelf, tmp_path: Path) -> None:
    shelf.wheels["app"] += b"more"
    with pytest.raises(FetchError, match="app==1: sha256 is"):
        gather_wheels(shelf.packages, tmp_path, shelf.download)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_named(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FetchError, match=r"^cache: cannot write"):
        gather_wheels(shelf.packages, tmp_path / "file" / "cache", shelf.download)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("/usr/bin/python: No module named pip", "ensurepip"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", "another sha256"),
        ("WARNING: NewConnectionError('...')\nERROR: No matching distribution found", "no connection"),
        ("ERROR: Could not find app==1 (from versions: none)\nERROR: No matching distribution", "cannot be reached"),
        ("ERROR: No matching distribution found for app==1\n[notice] update", "ERROR: No matching distribution"),
    ],
)
def test_what_pip_says_becomes_one_line(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, message: str
) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert "--require-hashes" in command
        return subprocess.CompletedProcess(command, 1, "", output)

    monkeypatch.setattr(download.subprocess, "run", run)
    with pytest.raises(FetchError, match=message):
        pip_download(shelf.packages[0], tmp_path)


def test_the_cache_follows_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LACUNA_CACHE", "/somewhere")
    assert default_cache() == Path("/somewhere/packages")


@pytest.mark.network
@pytest.mark.parametrize("name", ["zope.app.locales", "mercurial"])
def test_a_real_package_comes_with_the_pinned_hash(tmp_path: Path, name: str) -> None:
    (package,) = (package for package in load_registry().packages if package.name == name)
    paths = gather_wheels([package], tmp_path, pip_download)
    assert paths[name].stat().st_size == package.size
