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


@dataclass(slots=True)
class Usage:
    """What some work took; complete when the work is done.

    :param seconds: Wall-clock time, without that of steps inside.
    :param cpu_seconds: Processor time of all threads of the process, without that of steps inside; ``None`` if it was
        not measured.
    :param peak_bytes: Largest resident memory of the process, with mapped files; ``None`` if the system does not tell.
    """

    seconds: float = 0.0
    cpu_seconds: float | None = None
    peak_bytes: int | None = None


@dataclass(slots=True)
class _Clock:
    """A measurement that goes on.

    :param inside: Seconds and processor time of the steps inside that have ended.
    """

    peak: int = 0
    inside: tuple[float, float] = (0.0, 0.0)


# One for each step that runs now, the outermost first.
_clocks: list[_Clock] = []


@contextmanager
def measured_usage() -> Iterator[Usage]:
    """Measure what the work inside takes. Measurements may be nested, in one thread: steps run inside of steps."""
    usage, clock = Usage(), _Clock()
    _note_peak()
    resets = _reset_peak()
    _clocks.append(clock)
    started, cpu_started = time.monotonic(), time.process_time()
    try:
        yield usage
    finally:
        seconds, cpu_seconds = time.monotonic() - started, time.process_time() - cpu_started
        _note_peak()
        _clocks.pop()
        usage.seconds = round(seconds - clock.inside[0], 1)
        usage.cpu_seconds = round(cpu_seconds - clock.inside[1], 1)
        usage.peak_bytes = clock.peak if resets and clock.peak else None
        if _clocks:
            outer = _clocks[-1]
            outer.inside = outer.inside[0] + seconds, outer.inside[1] + cpu_seconds


def _note_peak() -> None:
    """Add the peak since the last reset to all measurements that go on."""
    peak = _peak() or 0
    for clock in _clocks:
        clock.peak = max(clock.peak, peak)


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
