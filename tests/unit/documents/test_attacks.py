"""Mutated files of all formats are read or refused; a short run of the script in ``benchmarks/``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_mutated_files_are_read_or_refused_in_one_line() -> None:
    script = Path(__file__).parents[3] / "benchmarks" / "attack_readers.py"
    command = [sys.executable, str(script), "--cases", "690", "--seconds", "600", "--seed", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
