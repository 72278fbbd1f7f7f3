"""The files that CONTRIBUTING names on the way of one translation are those that run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from call_chains import Chain, describe, make_memory, split_contributing, translation


@pytest.mark.skipif(sys.platform != "linux", reason="the fastest code differs between systems")
def test_contributing_names_the_files_of_one_translation(tmp_path: Path) -> None:
    make_memory(tmp_path)
    _, files, _ = split_contributing()
    assert files == describe(translation(tmp_path)), "update it: python tests/call_chains.py --write"


def test_files_stand_below_their_caller_without_helpers() -> None:
    chain = Chain()
    chain.callers = {"a.py": None, "artifacts/b.py": "a.py", "c.py": "artifacts/b.py", "d.py": "a.py", "e.py": "c.py"}
    assert list(chain.lines()) == [(0, "a.py"), (1, "c.py"), (2, "e.py"), (1, "d.py")]
