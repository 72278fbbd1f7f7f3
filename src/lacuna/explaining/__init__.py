"""Why a translation is as it is: every token with what model and memory said of it, and how sure one may be."""

from lacuna.explaining.calibrating import CalibrationReport, calibrate
from lacuna.explaining.calibration import Calibration, load_calibration
from lacuna.explaining.explainer import Explainer
from lacuna.explaining.gaps import Gap, find_gaps
from lacuna.explaining.page import render_page
from lacuna.explaining.records import ExplainedNeighbor, ExplainedToken, Explanation

__all__ = [
    "Calibration",
    "CalibrationReport",
    "ExplainedNeighbor",
    "ExplainedToken",
    "Explainer",
    "Explanation",
    "Gap",
    "calibrate",
    "find_gaps",
    "load_calibration",
    "render_page",
]
