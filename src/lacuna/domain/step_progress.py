"""One progress display for many steps, with the time left over all of them.

The time left of later steps is their estimate, corrected by how far the estimates of finished steps were off. That of
the current step is the larger one of its estimate and what its own progress predicts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from lacuna.progress import Progress, duration

_WHOLE = 100.0
# Names of the steps of the step cache that would not explain themselves.
_TITLES = {"store": "build", "safe": "choose pruning", "translate": "translate test"}
# A correction by finished steps is used only after this many estimated seconds, and only within these bounds.
_ENOUGH_SECONDS, _MIN_FACTOR, _MAX_FACTOR = 5.0, 0.2, 5.0
# Share of a task that tells its speed; the first sentences to be finished are the short ones.
_ENOUGH_DONE = 0.1


class StepProgress:
    """Receives the progress of the work inside of steps, and shows it as one task of 100 percent.

    :param outer: Shows the task.
    :param what: Name of the task.
    :param seconds: Estimated time of each step, in order.
    """

    def __init__(
        self,
        outer: Progress,
        what: str,
        seconds: Mapping[str, float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._outer, self._clock = outer, clock
        self._left, self._step, self._estimate = dict(seconds), "", 0.0
        self._finished, self._finished_estimate = 0.0, 0.0
        self._begun = self._step_begun = self._task_begun = clock()
        self._task, self._unit, self._done, self._shown = "", "", 0.0, 0.0
        self._total: float | None = None
        outer.start(what, _WHOLE)

    def begin(self, step: str) -> None:
        """Begin a step; the ones before are finished, were left out, or had their results already."""
        if step == self._step:
            return
        self._close_step()
        names = list(self._left)
        for earlier in names[: names.index(step)] if step in names else ():
            del self._left[earlier]
        self._step, self._estimate, self._step_begun = step, self._left.pop(step, 0.0), self._clock()
        self._task, self._total, self._done = "", None, 0.0
        self._show()

    def end(self) -> None:
        """End the task."""
        self._close_step()
        self._outer.advance(_WHOLE - self._shown)
        self._outer.finish()

    def start(self, what: str, total: float | None = None, unit: str = "") -> None:
        """Start a task inside of the current step."""
        self._task, self._total, self._unit, self._done, self._task_begun = what, total, unit, 0.0, self._clock()

    def advance(self, amount: float = 1.0, note: str = "") -> None:
        """Add to the work done on the task inside of the current step."""
        self._done += amount
        self._show()

    def finish(self, note: str = "") -> None:
        """End the task inside of the current step."""
        self._task, self._total, self._done = "", None, 0.0

    def seconds_left(self) -> float:
        """Estimate the time until all steps are done."""
        now, factor = self._clock(), self._factor()
        own = max(0.0, factor * self._estimate - (now - self._step_begun))
        if self._total and self._done >= _ENOUGH_DONE * self._total:
            own = max(own, (now - self._task_begun) * max(0.0, self._total / self._done - 1))
        return own + factor * sum(self._left.values())

    def _factor(self) -> float:
        if self._finished_estimate < _ENOUGH_SECONDS:
            return 1.0
        return min(_MAX_FACTOR, max(_MIN_FACTOR, self._finished / self._finished_estimate))

    def _close_step(self) -> None:
        if self._step:
            self._finished += self._clock() - self._step_begun
            self._finished_estimate += self._estimate
            self._step = ""

    def _show(self) -> None:
        left, spent = self.seconds_left(), self._clock() - self._begun
        # Never backward: a bar that shrinks is no help, even if an estimate has grown.
        share = max(self._shown, min(_WHOLE - 1, _WHOLE * spent / max(spent + left, 1e-9)))
        parts = [_TITLES.get(self._step, self._step)]
        if self._total:
            parts.append(f"{self._done:,.0f} of {self._total:,.0f} {self._unit}".rstrip())
        text = f"{', '.join(parts)}; {duration(round(left) if left >= 1 else 1)} left"
        self._outer.advance(share - self._shown, text)
        self._shown = share
