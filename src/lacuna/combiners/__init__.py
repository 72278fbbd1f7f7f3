"""Combiners turn neighbors into probability; :func:`mix_tokens` interpolates it with the model's distribution."""

from lacuna.combiners.adaptive import Adaptive
from lacuna.combiners.base import Combiner, Neighbors, kernel_weights
from lacuna.combiners.end_guard import EndGuard
from lacuna.combiners.exact_contexts import ExactContexts
from lacuna.combiners.gate import Gate, load_gate, save_gate
from lacuna.combiners.interpolation import interpolate, mix_given, mix_tokens, token_mass
from lacuna.combiners.kster import Kster
from lacuna.combiners.proximity import Proximity
from lacuna.combiners.storage import COMBINERS, SavedCombiner, load_combiner, save_combiner
from lacuna.combiners.vanilla import Vanilla

__all__ = [
    "COMBINERS",
    "Adaptive",
    "Combiner",
    "EndGuard",
    "ExactContexts",
    "Gate",
    "Kster",
    "Neighbors",
    "Proximity",
    "SavedCombiner",
    "Vanilla",
    "interpolate",
    "kernel_weights",
    "load_combiner",
    "load_gate",
    "mix_given",
    "mix_tokens",
    "save_combiner",
    "save_gate",
    "token_mass",
]
