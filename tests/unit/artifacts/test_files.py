"""Files and folders that appear complete or not at all."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from lacuna.artifacts import files
from lacuna.artifacts.files import atomic_path, sync, write_text
from lacuna.errors import LacunaWarning


@pytest.fixture(params=[0o022, 0o077, 0o002])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_files_follow_the_umask(tmp_path: Path, umask: int) -> None:
    write_text(tmp_path / "a.txt", "text")
    with atomic_path(tmp_path / "b.safetensors") as temporary:
        save_file({"w": torch.zeros(1)}, temporary)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o666 & ~umask}


def test_the_umask_is_never_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It belongs to the process: a file that another thread creates in that moment would be open to everyone."""
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail(f"umask({mask:o})"))
    write_text(tmp_path / "a.txt", "text")
    source = Path(files.__file__).parents[1]
    assert [path for path in source.rglob("*.py") if "os.umask" in path.read_text(encoding="utf-8")] == []


def test_threads_that_write_the_same_file_do_not_meet(tmp_path: Path) -> None:
    threads = [threading.Thread(target=write_text, args=(tmp_path / "a", f"{n}" * 9)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set((tmp_path / "a").read_text())) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_folders_are_not_opened_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_WINDOWS", True)
    (tmp_path / "file").touch()
    sync(tmp_path / "file")
    monkeypatch.setattr(os, "open", lambda *arguments: pytest.fail("opened a folder"))
    sync(tmp_path)


def test_a_file_that_has_its_name_is_not_reported_as_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object, **settings: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(
        os, "fsync", lambda descriptor: broken() if stat.S_ISDIR(os.fstat(descriptor).st_mode) else None
    )
    monkeypatch.setattr(os, "unlink", broken)  # there is nothing to be removed
    with pytest.warns(LacunaWarning, match=r"a\.txt: is written, but may be gone if the system crashes now \(Input/"):
        write_text(tmp_path / "a.txt", "text")
    assert (tmp_path / "a.txt").read_text() == "text"
