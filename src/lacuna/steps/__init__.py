"""The cached pipeline that adaptations and experiments share: build, index, margin, prune, fit, translate and score."""

from lacuna.steps.cached_steps import Steps
from lacuna.steps.handles import (
    CachedCombiner,
    CachedMemory,
    CachedModel,
    IndexSize,
    MaskedMemory,
    PrunedMemory,
    RatioChoice,
    SafeRatio,
    Sentences,
    StepSettings,
)
from lacuna.steps.step_cache import CachedStep, MissingResultError, StepCache

__all__ = [
    "CachedCombiner",
    "CachedMemory",
    "CachedModel",
    "CachedStep",
    "IndexSize",
    "MaskedMemory",
    "MissingResultError",
    "PrunedMemory",
    "RatioChoice",
    "SafeRatio",
    "Sentences",
    "StepCache",
    "StepSettings",
    "Steps",
]
