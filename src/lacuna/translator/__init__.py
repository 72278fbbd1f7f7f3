"""Translate with a model, memories and a combiner, and return the evidence behind every token."""

from lacuna.translator.memory import Memory, open_memory
from lacuna.translator.system import System, safe_combiner
from lacuna.translator.translator import Translator

__all__ = ["Memory", "System", "Translator", "open_memory", "safe_combiner"]
