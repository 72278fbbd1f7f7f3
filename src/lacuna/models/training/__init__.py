"""Training a translation model from scratch, on a CPU within a time budget."""

from lacuna.models.training.settings import Shape, TrainSettings
from lacuna.models.training.trainer import TrainingReport, WeightedCorpus, train_model

__all__ = ["Shape", "TrainSettings", "TrainingReport", "WeightedCorpus", "train_model"]
