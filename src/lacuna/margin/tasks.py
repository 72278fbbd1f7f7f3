"""Tasks of a measurement, run by a worker pool, with the state saved now and then.

Results are used in the order of the tasks, so they do not depend on timing or on the number of workers. Does not know
what the tasks compute.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from lacuna.workers import Pool

SECONDS_BETWEEN_SAVES = 20.0

Result = TypeVar("Result")


def run_and_save(
    pool: Pool,
    tasks: range,
    run: Callable[[int], Result],
    add: Callable[[int, Result], None],
    save: Callable[[int], None],
    advance: Callable[[int], None],
    files: Path | None = None,
) -> None:
    """Run tasks, and save the state every :data:`SECONDS_BETWEEN_SAVES` seconds.

    :param run: Runs one task, without side effects.
    :param add: Adds the result of a task to the state; called in the order of the tasks.
    :param save: Saves the state after this many tasks.
    :param advance: Is called with the number of each finished task.
    :param files: As in :meth:`~lacuna.workers.Pool.map`.
    """
    saved = time.monotonic()
    with closing(pool.map(run, tasks, files=files)) as results:
        for number, result in zip(tasks, results, strict=True):
            add(number, result)
            if time.monotonic() - saved >= SECONDS_BETWEEN_SAVES:
                save(number + 1)
                saved = time.monotonic()
            advance(number)
