"""How kernels are compiled: for this processor, at the first call, and cached on disk for the next process.

The cache is in the user's cache folder, under a hash of the sources of all kernels: a change in one file also compiles
the kernels of other files again, which may call it.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numba
from llvmlite import binding

from lacuna.artifacts.user_cache import VARIABLE, cache_folder

_LOGGER = logging.getLogger(__name__)  # shown by default
_CONFIG: Any = numba.config  # its settings are set at run time
_F = TypeVar("_F", bound=Callable[..., Any])

# Sums may be reordered and products fused. Infinities keep their meaning: a bias can rule a token out.
SAFE_MATH = {"reassoc", "contract", "arcp", "nsz"}


def compiled(function: _F) -> _F:
    """Compile a function that releases the GIL; the decorator of all kernels."""
    return compile_with(function, SAFE_MATH)


def compile_with(function: _F, math: set[str] | bool) -> _F:
    """Compile a function.

    :param math: What LLVM may assume about float arithmetic, as ``fastmath`` of numba.
    """
    settings: dict[str, Any] = {"nogil": True, "fastmath": math, "error_model": "numpy"}
    made: _F
    folder, before = _folder(), _CONFIG.CACHE_DIR
    if folder is None:
        made = numba.njit(**settings)(function)
        return made
    try:
        _CONFIG.CACHE_DIR = str(folder)  # read when a function is decorated
        made = numba.njit(cache=True, **settings)(function)
    finally:
        _CONFIG.CACHE_DIR = before
    return made


@contextmanager
def announced(what: str) -> Iterator[bool]:
    """Say that kernels are compiled, unless they were compiled before: it takes so long that a user may wonder.

    :param what: Which kernels: a name for a file.
    :return: Whether they must be compiled, and can be cached.
    """
    folder = _folder()
    mark = None if folder is None else folder / f"{what}.compiled"
    is_new = mark is None or not mark.exists()
    if is_new:
        again = " (the next start is faster)" if mark else f" (set {VARIABLE} to a folder to keep them)"
        _LOGGER.warning("compiling the %s kernels for this processor%s", what, again)
    yield is_new and mark is not None
    if mark is not None:
        with suppress(OSError):
            mark.touch()


def processor_features() -> frozenset[str]:
    """Return the features of the processor that kernels are compiled for; ``NUMBA_CPU_FEATURES`` overrides them."""
    if _CONFIG.CPU_FEATURES is None:
        return frozenset(name for name, present in binding.get_host_cpu_features().items() if present)
    listed = _CONFIG.CPU_FEATURES.split(",")
    return frozenset(name.removeprefix("+") for name in listed if name.startswith("+"))


def _folder() -> Path | None:
    return _version_folder(cache_folder("kernels"))


def _version_folder(base: Path | None) -> Path | None:
    if base is None:
        return None
    total = hashlib.sha256(numba.__version__.encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        total.update(path.read_bytes())
    return base / total.hexdigest()[:16]
