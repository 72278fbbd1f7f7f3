"""Fit everything that a translator takes from a dev set: combiners, gates, calibrations, and how much to prune."""

from lacuna.fitting.adaptive import FitAdaptive
from lacuna.fitting.calibration import CalibrationReport, calibrate
from lacuna.fitting.dev_cache import DevCache
from lacuna.fitting.dev_pass import DevSet
from lacuna.fitting.fitters import FITTERS, FitReport, Fitter, fit_combiner, make_fitter
from lacuna.fitting.gate import add_gate
from lacuna.fitting.kster import FitKster
from lacuna.fitting.pruning_choice import PruningChoice, choose_pruning
from lacuna.fitting.pruning_loss import PruningLoss, measure_loss
from lacuna.fitting.vanilla import FitVanilla, collect_retrievals, tune

__all__ = [
    "FITTERS",
    "CalibrationReport",
    "DevCache",
    "DevSet",
    "FitAdaptive",
    "FitKster",
    "FitReport",
    "FitVanilla",
    "Fitter",
    "PruningChoice",
    "PruningLoss",
    "add_gate",
    "calibrate",
    "choose_pruning",
    "collect_retrievals",
    "fit_combiner",
    "make_fitter",
    "measure_loss",
    "tune",
]
