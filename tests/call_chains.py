"""Trace which files of ``src/lacuna`` a command runs, in the order in which it reaches them.

``python tests/call_chains.py`` prints the chains of one translation, of one correction over HTTP and of one ``adapt``;
``--write`` also writes the first into CONTRIBUTING. It uses only the command line and the HTTP API.
"""

from __future__ import annotations

import ast
import functools
import gc
import importlib
import os
import pkgutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any

import lacuna
from made_up import make_pairs, write_pairs
from unit.models.tiny_models import make_marian

SOURCE = Path(str(lacuna.__file__)).parent
CONTRIBUTING = Path(__file__).resolve().parents[1] / "CONTRIBUTING.md"
BEGIN, END = "<!-- files of one translation, written by tests/call_chains.py -->\n", "<!-- end of the files -->\n"

# Every part uses these, so they say nothing about the way of a command; CONTRIBUTING names them before the list.
HELPERS = ("artifacts/", "errors.py", "progress.py", "records.py", "version.py")


_PREFIX = f"{SOURCE}{os.sep}"


class Chain:
    """Files in the order of their first call, each with the file that called it."""

    def __init__(self) -> None:
        self.callers: dict[str, str | None] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Take note of a call; see :func:`sys.setprofile`."""
        if event == "call" and (name := _file(frame)) is not None and name not in self.callers:
            self.callers[name] = self._caller(frame)

    def _caller(self, frame: FrameType | None) -> str | None:
        while frame is not None and (frame := frame.f_back) is not None:
            if (name := _file(frame)) in self.callers:
                return name
        return None

    def lines(self, caller: str | None = None, depth: int = 0) -> Iterator[tuple[int, str]]:
        """Yield each file with its depth, after the file that called it; helpers are left out."""
        for name in [name for name, by in self.callers.items() if by == caller]:
            helper = name.startswith(HELPERS)
            if not helper:
                yield depth, name
            yield from self.lines(name, depth + (not helper))


def _file(frame: FrameType) -> str | None:
    """Return the path of a module of ours, from the root of the package; what runs during its import does not count."""
    code = frame.f_code
    if not (code.co_filename.startswith(_PREFIX) and code.co_filename.endswith(".py")) or code.co_name == "<module>":
        return None
    return code.co_filename.removeprefix(_PREFIX).replace(os.sep, "/")


@contextmanager
def traced() -> Iterator[Chain]:
    """Trace all calls in this thread and in those that start meanwhile, as in a new process."""
    for module in pkgutil.walk_packages(lacuna.__path__, "lacuna."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for thing in gc.get_objects():
        # `isinstance` would ask lazy modules for their class.
        if type(thing) is functools._lru_cache_wrapper and thing.__module__.startswith("lacuna"):
            thing.cache_clear()
    chain = Chain()
    threading.setprofile(chain)
    sys.setprofile(chain)
    try:
        yield chain
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def run(command: str) -> None:
    """Run a command of ``lacuna`` in this process and demand that it succeeds."""
    from lacuna.cli.main import main

    said, arguments = StringIO(), sys.argv
    sys.argv = ["lacuna", *command.split()]
    try:
        with redirect_stdout(said), redirect_stderr(said):
            main()
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise AssertionError(said.getvalue()) from ended
    finally:
        sys.argv = arguments


def make_memory(folder: Path) -> None:
    """Write a text, a store with its index, and a combiner into a folder."""
    write_pairs(folder / "train.tsv", make_pairs(60))
    write_pairs(folder / "dev.tsv", make_pairs(40, seed=1))
    (folder / "text.txt").write_text("Wir sehen drei Äpfel.\nWir sehen neun Hunde und zwei Bücher.\n", encoding="utf-8")
    with chdir(folder):
        run("build train.tsv --into store --threads 1 --device cpu")
        run("index store --threads 1")
        run("fit adaptive dev.tsv --memory store --into combiner --threads 1 --device cpu")


def translation(folder: Path) -> Chain:
    """Translate a text with the bundled model, a memory and a combiner, after the first time has filled the cache."""
    command = "translate text.txt --memory store --combiner combiner --threads 1 --device cpu"
    with chdir(folder):
        run(command)
        with traced() as chain:
            run(command)
    return chain


def correction(folder: Path) -> Chain:
    """Add a pair to the memory of a server."""
    import uvicorn
    from starlette.testclient import TestClient

    def ask(server: Any, *_: Any, **__: Any) -> None:
        with TestClient(server.config.app, "http://localhost") as client:
            chain.callers.clear()
            pair = {"source": "Wir sehen zehn Vögel.", "target": "We see ten birds."}
            answer = client.post("/api/v1/memories/store/pairs", json={"pairs": [pair]})
            assert answer.status_code == 200, answer.text

    original, uvicorn.Server.run = uvicorn.Server.run, ask  # type: ignore[method-assign]
    try:
        with chdir(folder), traced() as chain:
            run("serve --memory store --combiner store=combiner --writable --threads 1 --device cpu --port 0")
    finally:
        uvicorn.Server.run = original  # type: ignore[method-assign]
    return chain


def adaptation(folder: Path) -> Chain:
    """Adapt a tiny model to a corpus that is large enough for every step."""
    write_pairs(folder / "corpus.tsv", make_pairs(760))
    make_marian(folder / "model")
    with chdir(folder), traced() as chain:
        run("adapt corpus.tsv --into domain --model model --languages de-en --threads 1 --device cpu")
    return chain


CHAINS: dict[str, Callable[[Path], Chain]] = {
    "one translation": translation,
    "one correction over HTTP": correction,
    "one adapt": adaptation,
}


def describe(chain: Chain) -> str:
    """Return the files of a chain as a Markdown list: each below its caller, with the beginning of its docstring."""
    return "".join(f"{'  ' * depth}- `{name}`: {_summary(SOURCE / name)}\n" for depth, name in chain.lines())


def _summary(file: Path) -> str:
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split()).partition(". ")[0].removesuffix(".").replace("``", "`")


def split_contributing() -> tuple[str, str, str]:
    """Return CONTRIBUTING before the files of one translation, these, and what follows."""
    before, begin, rest = CONTRIBUTING.read_text(encoding="utf-8").partition(BEGIN)
    files, end, after = rest.partition(END)
    return before + begin, files, end + after


def main() -> None:
    """Print all chains."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make_memory(folder)
        for title, trace in CHAINS.items():
            chain = trace(folder)
            if trace is translation and "--write" in sys.argv:
                before, _, after = split_contributing()
                CONTRIBUTING.write_text(before + describe(chain) + after, encoding="utf-8")
            print(f"{title}: {len(chain.callers)} files\n{describe(chain)}")


if __name__ == "__main__":
    main()
