import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lacuna.artifacts.files import sha256_of
from lacuna.corpora.fetching import wheels as download
from lacuna.corpora.fetching.registry import Package, load_registry
from lacuna.corpora.fetching.wheels import default_cache, gather_wheels, pip_download
from lacuna.errors import FetchError

from .conftest import Shelf


def test_what_is_cached_is_not_fetched_again(shelf: Shelf, tmp_path: Path) -> None:
    first = gather_wheels(shelf.packages, tmp_path, shelf.download)
    assert gather_wheels(shelf.packages, tmp_path, shelf.download) == first
    assert sorted(shelf.asked) == ["app", "home"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in first.values())


def test_a_damaged_file_is_fetched_again(shelf: Shelf, tmp_path: Path) -> None:
    paths = gather_wheels(shelf.packages, tmp_path, shelf.download)
    paths["app"].write_bytes(shelf.wheels["app"][:-1])
    shelf.asked.clear()
    gather_wheels(shelf.packages, tmp_path, shelf.download)
    assert shelf.asked == ["app"]
    assert sha256_of(paths["app"]) == shelf.packages[0].sha256


def test_an_interrupted_fetch_goes_on_where_it_was(shelf: Shelf, tmp_path: Path) -> None:
    shelf.fails_at = "home"
    with pytest.raises(KeyboardInterrupt):
        gather_wheels(shelf.packages, tmp_path, shelf.download)
    shelf.fails_at = ""
    shelf.asked.clear()
    gather_wheels(shelf.packages, tmp_path, shelf.download)
    assert shelf.asked == ["home"]  # the other one was complete


def many(shelf: Shelf, count: int) -> list[Package]:
    """Packages of different sizes."""
    return [shelf.put(f"p{number}", {"file": bytes(range(250)) * (number + 1)}) for number in range(count)]


def test_several_are_downloaded_at_once_and_the_largest_first(tmp_path: Path) -> None:
    shelf = Shelf()
    packages = many(shelf, 8)
    together = threading.Barrier(download._AT_ONCE, timeout=60)

    def fetch(package: Package, folder: Path) -> None:
        together.wait()  # breaks unless so many are in progress at the same time
        shelf.download(package, folder)

    paths = gather_wheels(packages, tmp_path, fetch)
    assert {name: path.read_bytes() for name, path in paths.items()} == shelf.wheels
    largest = sorted(packages, key=lambda package: package.size, reverse=True)[: download._AT_ONCE]
    assert set(shelf.asked[: download._AT_ONCE]) == {package.name for package in largest}


def test_after_an_error_no_further_download_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf, ended = Shelf(), threading.Event()
    packages = many(shelf, 8)

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            ended.set()
            super().shutdown(wait=wait)

    def fail(package: Package, folder: Path) -> None:
        shelf.asked.append(package.name)
        if package is not packages[-1]:  # the largest, hence the first, fails; the others are in progress
            assert ended.wait(60)
            return shelf.download(package, folder)
        raise FetchError(f"{package.pin}: no")

    monkeypatch.setattr(download, "ThreadPoolExecutor", Pool)
    with pytest.raises(FetchError, match="p7==1: no"):
        gather_wheels(packages, tmp_path, fail)
    assert len(set(shelf.asked)) <= download._AT_ONCE + 1  # the thread of the failed one may have taken another
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {package.filename for package in packages if package.name in shelf.asked and package.name != "p7"}


class Amounts:
    """Progress that keeps what it was told."""

    def __init__(self) -> None:
        self.total: float | None = None
        self.amounts: list[float] = []

    def start(self, what: str, total: float | None = None, unit: str = "") -> None:
        assert (what, unit) == ("packages", "MB")
        self.total = total

    def advance(self, amount: float = 1.0, note: str = "") -> None:
        self.amounts.append(amount)

    def finish(self, note: str = "") -> None:
        pass


def test_progress_counts_megabytes_and_ends_at_the_total(shelf: Shelf, tmp_path: Path) -> None:
    for _ in range(2):  # the second time, everything is in the cache
        seen = Amounts()
        gather_wheels(shelf.packages, tmp_path, shelf.download, seen)
        assert min(seen.amounts) >= 0
        assert sum(seen.amounts) == pytest.approx(seen.total)
        assert seen.total == pytest.approx(sum(map(len, shelf.wheels.values())) / 1e6)


def test_an_unfinished_file_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_PROGRESS_SECONDS", 0.01)
    shelf, seen = Shelf(), Amounts()
    package = shelf.put("app", {"file": bytes(range(250)) * 100})
    half = package.size // 2

    def slowly(package: Package, folder: Path) -> None:
        data, part = shelf.wheels["app"], folder / "unpacking" / "part"
        part.parent.mkdir()
        part.write_bytes(data[:half])
        while sum(seen.amounts) < half / 1e6:
            time.sleep(0.01)
        part.unlink()
        shelf.download(package, folder)

    gather_wheels([package], tmp_path, slowly, seen)
    assert sum(seen.amounts) == pytest.approx(package.size / 1e6)


def test_another_hash_is_refused_and_not_kept(shelf: Shelf, tmp_path: Path) -> None:
    shelf.wheels["app"] += b"more"
    with pytest.raises(FetchError, match="app==1: sha256 is"):
        gather_wheels(shelf.packages, tmp_path, shelf.download)
    assert not (tmp_path / shelf.packages[0].filename).exists()
    assert not list(tmp_path.glob(".download-*"))


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
    def run(command: list[str], *, env: dict[str, str], **_: object) -> subprocess.CompletedProcess[str]:
        assert "--require-hashes" in command
        assert env["TMPDIR"] == str(tmp_path)
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
