"""Why a translation is as it is: every token with what model and memory said of it, and how sure one may be."""

from lacuna.explanation.calibration import Calibration, load_calibration
from lacuna.explanation.explainer import Explainer
from lacuna.explanation.explanation import ExplainedNeighbor, ExplainedToken, Explanation, render_page
from lacuna.explanation.gaps import Gap, find_gaps

__all__ = [
    "Calibration",
    "ExplainedNeighbor",
    "ExplainedToken",
    "Explainer",
    "Explanation",
    "Gap",
    "find_gaps",
    "load_calibration",
    "render_page",
]
