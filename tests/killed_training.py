"""A training command that dies at a chosen step, whatever the load of the machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from lacuna.cli.train import MALLOC

_PROGRAM = """
import os, signal, sys
from lacuna.cli.main import main
from lacuna.models.training.loop import TrainingLoop

def step_or_die(self, pairs, step=TrainingLoop._step, last=int(sys.argv.pop(1))):
    if self.counters.step == last:
        os.kill(os.getpid(), signal.SIGKILL)
    step(self, pairs)

TrainingLoop._step = step_or_die
sys.exit(main())
"""


def kill_at_step(arguments: Sequence[str], step: int) -> None:
    """Run ``lacuna`` with ``arguments``, and kill it with SIGKILL when ``step`` training steps are done."""
    command = [sys.executable, "-c", _PROGRAM, str(step), *arguments]
    # With the settings of malloc in place, the command does not replace itself by a process without the change above.
    environment = os.environ | MALLOC
    process = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert process.returncode == -signal.SIGKILL, process.stderr
