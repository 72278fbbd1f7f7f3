"""Compiled kernels for CPUs, where numba is installed (the extra ``fast``); everything works without them, slower."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any


@cache
def load_kernels() -> Any | None:  # noqa: ANN401 - a module that needs numba
    """Return :mod:`lacuna.kernels.compiled`, or ``None`` without numba. Imports late: numba takes half a second."""
    if find_spec("numba") is None:
        return None
    from lacuna.kernels import compiled

    return compiled


@cache
def load_list_search() -> Any | None:  # noqa: ANN401 - a module that needs numba
    """Return :mod:`lacuna.kernels.list_search`, or ``None`` without numba or on a processor that it is not for."""
    if find_spec("numba") is None:
        return None
    from lacuna.kernels import list_search

    return list_search if list_search.SUPPORTED else None
