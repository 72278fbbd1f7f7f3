"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is no counter-example: speed belongs in benchmarks/, so no example has a deadline.
settings.register_profile("lacuna", deadline=None, print_blob=True)
settings.load_profile("lacuna")
