"""The knowledge margin: how much of an entry's neighborhood the model knows.

Names are found here when they are first used: reading margins needs no torch, measuring them does.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lacuna.margin.manifest import Agreement, Approximate, MarginManifest, Margins, read_margins

if TYPE_CHECKING:
    from lacuna.margin.measuring import MarginReport, measure_margin
    from lacuna.margin.queries import margin_of

_HOMES = {
    "MarginReport": "lacuna.margin.measuring",
    "margin_of": "lacuna.margin.queries",
    "measure_margin": "lacuna.margin.measuring",
}

__all__ = [
    "Agreement",
    "Approximate",
    "MarginManifest",
    "MarginReport",
    "Margins",
    "margin_of",
    "measure_margin",
    "read_margins",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public object
    if name not in _HOMES:
        raise AttributeError(f"module 'lacuna.margin' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
