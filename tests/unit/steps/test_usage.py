"""What a step takes, against work whose size is known."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from lacuna.steps import usage as module
from lacuna.steps.usage import measured_usage

MEGABYTE = 2**20


def test_seconds_and_processor_time_of_a_step_that_waits_and_works() -> None:
    with measured_usage() as usage:
        time.sleep(0.3)
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
    assert usage.seconds >= 0.6
    assert usage.cpu_seconds is not None
    assert 0.3 <= usage.cpu_seconds < usage.seconds


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the peak of a step")
def test_peak_is_of_the_step_and_not_of_earlier_ones() -> None:
    with measured_usage() as large:
        held = np.ones(256 * MEGABYTE, np.uint8)
    del held
    with measured_usage() as small:
        np.ones(MEGABYTE, np.uint8)
    assert large.peak_bytes is not None
    assert small.peak_bytes is not None
    assert large.peak_bytes - small.peak_bytes > 200 * MEGABYTE


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the peak of a step")
def test_the_peak_of_a_step_is_at_least_that_of_the_steps_inside() -> None:
    with measured_usage() as outer:
        with measured_usage() as inner:
            held = np.ones(256 * MEGABYTE, np.uint8)
        del held
    assert inner.peak_bytes is not None
    assert outer.peak_bytes is not None
    assert outer.peak_bytes >= inner.peak_bytes


def test_a_system_that_does_not_tell_the_peak(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "_PROCESS", tmp_path / "missing")
    with measured_usage() as usage:
        pass
    assert usage.peak_bytes is None
    assert usage.seconds == 0.0


def test_the_time_of_steps_inside_is_theirs_alone() -> None:
    with measured_usage() as outer:
        with measured_usage() as first:
            time.sleep(0.4)
        with measured_usage() as second:
            time.sleep(0.3)
            with measured_usage() as third:
                time.sleep(0.2)
        time.sleep(0.1)
    found = [usage.seconds for usage in (outer, first, second, third)]
    assert found == pytest.approx([0.1, 0.4, 0.3, 0.2], abs=0.1)
