"""Explain translations: the evidence behind every token, and how confident the model is."""

from lacuna.explanation.calibration import Calibration, load_calibration
from lacuna.explanation.explainer import Explainer, explain
from lacuna.explanation.explanation import ExplainedNeighbor, ExplainedToken, Explanation, render_page
from lacuna.explanation.gaps import Gap, find_gaps

__all__ = [
    "Calibration",
    "ExplainedNeighbor",
    "ExplainedToken",
    "Explainer",
    "Explanation",
    "Gap",
    "explain",
    "find_gaps",
    "load_calibration",
    "render_page",
]
