"""Translation models: Hugging Face models behind one adapter, training, tokenization and import."""

from lacuna.models.adapter import Model
from lacuna.models.loading import load_model
from lacuna.models.teacher_forcing import TeacherForced

__all__ = ["Model", "TeacherForced", "load_model"]
