"""Translate with a system: a model, memories, a combiner and all else that decides a translation."""

from lacuna.translator.calibration import Calibration, load_calibration
from lacuna.translator.system import System, SystemRecord, safe_combiner
from lacuna.translator.translator import Translator

__all__ = [
    "Calibration",
    "System",
    "SystemRecord",
    "Translator",
    "load_calibration",
    "safe_combiner",
]
