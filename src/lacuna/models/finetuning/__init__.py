"""Fine-tuning a pre-trained translation model on a domain: all of its weights, or small adapters beside them (LoRA)."""

from lacuna.models.finetuning.finetuner import finetune_model
from lacuna.models.finetuning.report import FinetuneReport
from lacuna.models.finetuning.settings import FinetuneSettings, LoraSettings

__all__ = ["FinetuneReport", "FinetuneSettings", "LoraSettings", "finetune_model"]
