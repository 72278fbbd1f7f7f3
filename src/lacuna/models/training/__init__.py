"""Training translation models: from scratch, or by fine-tuning a pre-trained one."""

from lacuna.models.training.finetuning import FinetuneReport, finetune_model
from lacuna.models.training.scratch import TrainingReport, WeightedCorpus, train_model
from lacuna.models.training.settings import FinetuneSettings, LoraSettings, Shape, TrainSettings

__all__ = [
    "FinetuneReport",
    "FinetuneSettings",
    "LoraSettings",
    "Shape",
    "TrainSettings",
    "TrainingReport",
    "WeightedCorpus",
    "finetune_model",
    "train_model",
]
