"""The facade: a model, memories and a combiner give translations with the evidence of every step."""

from lacuna.translator.memory import Memory, open_memory
from lacuna.translator.translator import Translator

__all__ = ["Memory", "Translator", "open_memory"]
