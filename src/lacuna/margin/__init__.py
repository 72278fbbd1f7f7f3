"""The knowledge margin: the number of an entry's nearest neighbors that are known before the first unknown one.

Names are imported on first use: reading margins does not need torch, measuring them does.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lacuna.margin.reference import count_known
from lacuna.margin.storage import Agreement, Approximate, MarginManifest, Margins, read_margins

if TYPE_CHECKING:
    from lacuna.margin.measurement import MarginReport, measure_margin
    from lacuna.margin.queries import margin_of
    from lacuna.margin.updating import MeasuredEntries, update_margins

_HOMES = {
    "MarginReport": "lacuna.margin.measurement",
    "MeasuredEntries": "lacuna.margin.updating",
    "margin_of": "lacuna.margin.queries",
    "measure_margin": "lacuna.margin.measurement",
    "update_margins": "lacuna.margin.updating",
}

__all__ = [
    "Agreement",
    "Approximate",
    "MarginManifest",
    "MarginReport",
    "Margins",
    "MeasuredEntries",
    "count_known",
    "margin_of",
    "measure_margin",
    "read_margins",
    "update_margins",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public object
    if name not in _HOMES:
        raise AttributeError(f"module 'lacuna.margin' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
