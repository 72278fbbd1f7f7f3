"""The user's cache folder: what can be made again at any time.

``LACUNA_CACHE`` names the folder; an empty value means that nothing is cached to start faster. Without the variable it
is ``lacuna`` in the place that the system has for caches.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

VARIABLE = "LACUNA_CACHE"


def user_cache() -> Path:
    """Return the cache folder, which may not exist yet.

    :raises RuntimeError: The user has no home folder.
    """
    named = os.environ.get(VARIABLE)
    return Path(named).expanduser() if named else _system_cache() / "lacuna"


def cache_folder(kind: str) -> Path | None:
    """Return the part of the cache for one kind of file, created if necessary.

    :param kind: Name of the part.
    :returns: ``None`` if it cannot be written, or if ``LACUNA_CACHE`` is empty: work goes on without it.
    """
    if os.environ.get(VARIABLE) == "":
        return None
    try:
        folder = user_cache() / kind
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None


def _system_cache() -> Path:
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base)
    if sys.platform == "win32" and (base := os.environ.get("LOCALAPPDATA")):
        return Path(base)
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
