"""What a step takes: seconds, processor time and peak memory.

The peak is that of the whole process, and is known on Linux only.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_PROCESS = Path("/proc/self")
# Written to clear_refs, this makes the peak start from the memory in use now (proc(5)).
_RESET_PEAK = "5"


@dataclass(slots=True, eq=True)
class Usage:
    """What some work took; complete when the work is done.

    :param seconds: Wall-clock time.
    :param cpu_seconds: Processor time of all threads of the process; ``None`` if it was not measured.
    :param peak_bytes: Largest resident memory of the process, with mapped files; ``None`` if the system does not tell.
    """

    seconds: float = 0.0
    cpu_seconds: float | None = None
    peak_bytes: int | None = None


# What is being measured now: steps inside of steps.
_measured: list[Usage] = []


@contextmanager
def measured_usage() -> Iterator[Usage]:
    """Measure what the work inside takes. Measurements may be nested, in one thread."""
    usage = Usage()
    _note_peak()
    resets = _reset_peak()
    _measured.append(usage)
    started, cpu_started = time.monotonic(), time.process_time()
    try:
        yield usage
    finally:
        usage.seconds = round(time.monotonic() - started, 1)
        usage.cpu_seconds = round(time.process_time() - cpu_started, 1)
        _note_peak()
        _measured.pop()
        if not resets:
            usage.peak_bytes = None


def _note_peak() -> None:
    """Add the peak since the last reset to all measurements."""
    peak = _peak()
    for usage in _measured:
        usage.peak_bytes = peak if peak is None else max(peak, usage.peak_bytes or 0)


def _reset_peak() -> bool:
    try:
        (_PROCESS / "clear_refs").write_text(_RESET_PEAK, encoding="ascii")
    except OSError:
        return False
    return True


def _peak() -> int | None:
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB", (_PROCESS / "status").read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return None
    return None if found is None else 1024 * int(found.group(1))
