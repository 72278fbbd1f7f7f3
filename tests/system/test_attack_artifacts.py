"""A short attack on the verbs that write, and on what they have written; ``benchmarks/attack_artifacts.py`` has all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "attack_artifacts.py"


@pytest.mark.posix
def test_nothing_is_found() -> None:
    verbs = "build,add to a new folder,forget"
    command = [sys.executable, str(SCRIPT), "--cases", "18", "--seed", "1", "--verbs", verbs]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["findings"] == {}
    assert report["cases"] > 15  # damage may leave a file as it was
