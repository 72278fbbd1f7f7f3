"""Explain translations: the evidence behind every token, and how confident the model is."""

from lacuna.explanation.explainer import Explainer, explain
from lacuna.explanation.explanation import ExplainedNeighbor, ExplainedToken, Explanation, render_page
from lacuna.explanation.gaps import Gap, find_gaps

__all__ = [
    "ExplainedNeighbor",
    "ExplainedToken",
    "Explainer",
    "Explanation",
    "Gap",
    "explain",
    "find_gaps",
    "render_page",
]
