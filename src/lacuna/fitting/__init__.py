"""Fitting to a dev set what a translator needs: vanilla's settings, adaptive, KSTER, a gate, a calibration."""

from lacuna.fitting.calibration import CalibrationReport, calibrate
from lacuna.fitting.fitters import FITTERS, FitAdaptive, FitKster, FitReport, FitVanilla, fit_combiner, make_fitter
from lacuna.fitting.gate import add_gate
from lacuna.fitting.vanilla import collect_retrievals, tune

__all__ = [
    "FITTERS",
    "CalibrationReport",
    "FitAdaptive",
    "FitKster",
    "FitReport",
    "FitVanilla",
    "add_gate",
    "calibrate",
    "collect_retrievals",
    "fit_combiner",
    "make_fitter",
    "tune",
]
