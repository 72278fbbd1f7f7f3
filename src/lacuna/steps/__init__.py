"""The cached pipeline that adaptations and experiments share: build, index, margin, prune, fit, translate and score."""

from lacuna.steps.cached_steps import Steps
from lacuna.steps.handles import CachedCombiner, CachedMemory, MaskedMemory, PrunedMemory, RatioChoice, SafeRatio, Sentences, StepSettings
from lacuna.steps.step_cache import CachedStep, StepCache

__all__ = [
    "CachedCombiner",
    "CachedMemory",
    "CachedStep",
    "MaskedMemory",
    "PrunedMemory",
    "RatioChoice",
    "SafeRatio",
    "Sentences",
    "StepCache",
    "StepSettings",
    "Steps",
]
