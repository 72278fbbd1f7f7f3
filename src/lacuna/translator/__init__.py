"""Translate with a model, memories and a combiner, and return the evidence behind every token."""

from lacuna.translator.system import System, safe_combiner
from lacuna.translator.translator import Translator

__all__ = ["System", "Translator", "safe_combiner"]
