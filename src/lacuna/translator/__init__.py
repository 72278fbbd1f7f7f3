"""The facade: a model, memories and a combiner give translations with the evidence of every step."""

from lacuna.translator.memories import Memory, open_memory
from lacuna.translator.translating import Translator
from lacuna.translator.tuning import collect_retrievals, tune

__all__ = ["Memory", "Translator", "collect_retrievals", "open_memory", "tune"]
