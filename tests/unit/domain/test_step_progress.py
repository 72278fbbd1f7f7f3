"""One display over several steps: percent never fall, and the time left follows estimates and what was measured."""

from __future__ import annotations

import pytest

from lacuna.domain.step_progress import StepProgress


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Shown:
    """Records what is shown."""

    def __init__(self) -> None:
        self.started: list[tuple[str, float | None]] = []
        self.share, self.notes, self.finished = [0.0], [""], 0

    def start(self, what: str, total: float | None = None, unit: str = "") -> None:
        self.started.append((what, total))

    def advance(self, amount: float = 1.0, note: str = "") -> None:
        self.share.append(self.share[-1] + amount)
        self.notes.append(note)

    def finish(self, note: str = "") -> None:
        self.finished += 1


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def shown() -> Shown:
    return Shown()


@pytest.fixture
def progress(shown: Shown, clock: Clock) -> StepProgress:
    return StepProgress(shown, "adapt", {"store": 10.0, "index": 5.0, "fit": 20.0, "score": 5.0}, clock)


def test_there_is_one_task_of_100_percent(progress: StepProgress, shown: Shown, clock: Clock) -> None:
    for step in ("store", "index", "fit", "score"):
        progress.begin(step)
        for task in ("one", "two"):
            progress.start(task, 2, "sentences")
            for _ in range(2):
                clock.now += 1
                progress.advance(1)
            progress.finish()
    progress.end()
    assert shown.started == [("adapt", 100.0)]
    assert shown.finished == 1
    assert shown.share == sorted(shown.share)
    assert shown.share[-1] == pytest.approx(100)


def test_the_time_left_is_that_of_the_estimates(progress: StepProgress, clock: Clock) -> None:
    progress.begin("store")
    assert progress.seconds_left() == 40
    clock.now = 4
    assert progress.seconds_left() == 36


def test_a_slow_task_counts_with_its_own_speed(progress: StepProgress, clock: Clock, shown: Shown) -> None:
    progress.begin("store")
    progress.start("build", 100, "pairs")
    clock.now = 10
    progress.advance(10)
    assert progress.seconds_left() == 90 + 30
    assert shown.notes[-1] == "build, 10 of 100 pairs; 2 min 0 s left"


def test_later_steps_are_corrected_by_finished_ones(progress: StepProgress, clock: Clock) -> None:
    progress.begin("store")
    clock.now = 30
    progress.begin("index")
    assert progress.seconds_left() == pytest.approx(3 * 30)


def test_steps_that_do_not_run_are_not_counted(progress: StepProgress) -> None:
    progress.begin("fit")
    assert progress.seconds_left() == 25
    progress.begin("fit")
    assert progress.seconds_left() == 25
