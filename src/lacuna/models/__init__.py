"""Translation models: Hugging Face models behind one adapter, and training from scratch."""

from lacuna.models.adapter import Model
from lacuna.models.forced import ForcedDecoding
from lacuna.models.loading import load_model

__all__ = ["ForcedDecoding", "Model", "load_model"]
