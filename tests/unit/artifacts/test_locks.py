"""The write lock, and that no module needs what only POSIX systems have."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from contextlib import chdir
from pathlib import Path
from types import SimpleNamespace

import pytest

from lacuna.artifacts.locks import LOCK_FILES, OWNER, alone, work_lock, write_lock
from lacuna.artifacts.user_cache import user_cache
from lacuna.errors import LockedError, StoreError

# As on Windows, for modules of Lacuna: what only POSIX systems have cannot be imported. Other packages see the system
# that they run on.
WINDOWS = """
import builtins, sys
POSIX_ONLY = {"fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "syslog", "readline", "curses"}
real = builtins.__import__

def without_posix(name, globals=None, locals=None, fromlist=(), level=0):
    if name in POSIX_ONLY and str((globals or {}).get("__name__")).startswith("lacuna"):
        raise ModuleNotFoundError(f"No module named {name!r}")
    return real(name, globals, locals, fromlist, level)

builtins.__import__ = without_posix
"""


def test_another_thread_is_refused_with_the_owner(tmp_path: Path) -> None:
    errors: list[str] = []

    def lock() -> None:
        try:
            with write_lock(tmp_path):
                errors.append("locked twice")
        except LockedError as error:
            errors.append(str(error))

    with write_lock(tmp_path, "adapted"):
        thread = threading.Thread(target=lock)
        thread.start()
        thread.join()
    assert errors == [
        f"{tmp_path}: being edited by another process (pid {os.getpid()}); wait until it is done, then run the command "
        "again"
    ]
    lock()
    assert errors[1:] == ["locked twice"]


def test_the_same_thread_is_refused_too(tmp_path: Path) -> None:
    with write_lock(tmp_path), pytest.raises(LockedError, match=f"pid {os.getpid()}"), write_lock(tmp_path):
        pass


def test_the_error_names_the_pid_and_the_work_of_another_process(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from lacuna.artifacts.locks import write_lock\n"
        "with write_lock(Path(sys.argv[1])):\n    print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        message = rf"being adapted by another process \(pid {process.pid}\)"
        with pytest.raises(LockedError, match=message), write_lock(tmp_path, "adapted"):
            pass
        process.kill()
        process.wait()
    with write_lock(tmp_path):  # a killed owner does not keep it
        assert {path.name for path in tmp_path.iterdir()} == LOCK_FILES


@pytest.mark.parametrize("name", sorted(LOCK_FILES))
def test_a_full_disk_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def full(path: str | Path, *arguments: object, **settings: object) -> object:
        if Path(path).name == name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, *arguments, **settings)  # type: ignore[operator]

    real: object = os.open if name != OWNER else Path.write_text
    monkeypatch.setattr(*(("os.open", full) if name != OWNER else ("pathlib.Path.write_text", full)))
    message = r"cannot be written \(No space left on device\); free space"
    with pytest.raises(StoreError, match=message), write_lock(tmp_path):
        pass
    monkeypatch.undo()
    with write_lock(tmp_path):  # it was released
        pass


def test_no_module_needs_what_only_posix_has() -> None:
    program = f"""{WINDOWS}
import importlib, pkgutil
import lacuna
for module in pkgutil.walk_packages(lacuna.__path__, "lacuna."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_help_is_shown_without_posix_modules() -> None:
    program = (
        f"{WINDOWS}\nimport runpy; sys.argv = ['lacuna', '--help']; runpy.run_module('lacuna', run_name='__main__')"
    )
    assert "adapt" in subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout


def test_work_on_a_folder_is_refused_by_the_pid_of_its_owner(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A cache of its own: other tests kill processes, whose locks stay.
    monkeypatch.setenv("LACUNA_CACHE", str(tmp_path_factory.mktemp("own-cache")))
    program = (
        "import sys; from pathlib import Path; from lacuna.artifacts.locks import work_lock\n"
        "with work_lock(Path(sys.argv[1])):\n    print('locked', flush=True); sys.stdin.read()"
    )
    folder = tmp_path / "new"
    command = [sys.executable, "-c", program, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        message = rf"new: another process is at work there \(pid {process.pid}\); wait"
        with pytest.raises(LockedError, match=message), work_lock(folder):
            pass
        with chdir(tmp_path), pytest.raises(LockedError), work_lock(Path("new")):  # the same folder by another name
            pass
        with work_lock(tmp_path / "other"):
            pass
        process.kill()
        process.wait()
    with work_lock(folder):  # a killed owner does not keep it
        pass
    assert list(tmp_path.iterdir()) == []
    assert list((user_cache() / "locks").iterdir()) == []


def test_without_a_cache_folder_work_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LACUNA_CACHE", str(tmp_path / "file"))
    with work_lock(tmp_path / "new"):
        pass
    with pytest.raises(OSError, match="of the work"), work_lock(tmp_path / "new"):
        raise OSError("of the work")


def test_a_function_that_works_alone_names_the_folder(tmp_path: Path) -> None:
    @alone("store", "part")
    def fill(first: int, store: SimpleNamespace) -> int:
        return first

    store = SimpleNamespace(path=tmp_path)
    assert fill(3, store=store) == fill(3, store) == 3
    with work_lock(tmp_path / "part"), pytest.raises(LockedError, match="part: another process"):
        fill(3, store)
