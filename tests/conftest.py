"""What all tests share."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Shells start background jobs with Ctrl-C ignored, which the tests of Ctrl-C and their child processes would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no counter-example: speed belongs in benchmarks/, so no example has a deadline.
settings.register_profile("lacuna", deadline=None, print_blob=True)
settings.load_profile("lacuna")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what Windows does not have."""
    if sys.platform == "win32":
        for item in items:
            if item.get_closest_marker("posix"):
                item.add_marker(pytest.mark.skip(reason="needs signals, fork or a shell"))


@pytest.fixture(autouse=True, scope="session")
def _no_cache_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what commands cache out of the home folder."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
