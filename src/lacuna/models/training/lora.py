"""LoRA adapters by peft: adding them to a network, saving them, and merging them into the weights.

Knows networks as trees of named layers; nothing of text or training.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, cast

from safetensors.torch import save_file
from torch import nn
from transformers import PreTrainedModel

from lacuna.errors import SettingError, needs_extra
from lacuna.models.training.settings import LoraSettings

if TYPE_CHECKING:
    from peft import PeftModel

# Queries and values of attention, and the feed-forward layers, by their names in BART-like models and in T5.
_USUAL_TARGETS = ("q_proj", "v_proj", "fc1", "fc2", "q", "v", "wi", "wi_0", "wi_1", "wo")
# The output projection is often tied to the embeddings, and the keys of a memory depend on it.
_PROJECTIONS = ("lm_head", "output_projection")


def add_adapters(network: PreTrainedModel, settings: LoraSettings, name: str) -> PeftModel:
    """Add adapters to a network in place; afterwards only they are trainable.

    :param name: Name of the base model in the adapter's config.
    """
    with needs_extra("lora", "fine-tuning with LoRA"):
        from peft import LoraConfig, TaskType, get_peft_model
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.effective_alpha,
        lora_dropout=settings.dropout,
        target_modules=choose_targets(network, settings.targets),
        task_type=TaskType.SEQ_2_SEQ_LM,
    )
    adapted: PeftModel = get_peft_model(network, config)
    config.base_model_name_or_path = name
    return adapted


def choose_targets(network: nn.Module, asked: tuple[str, ...] | None) -> list[str]:
    """Return the names of the layers that get an adapter; raise for names that the network lacks."""
    names = {path.rpartition(".")[2] for path, module in network.named_modules() if isinstance(module, nn.Linear)}
    names -= set(_PROJECTIONS)
    chosen = [name for name in asked or _USUAL_TARGETS if name in names]
    unknown = [name for name in asked or () if name not in names]
    if unknown or not chosen:
        got = ", ".join(unknown) or "none of the usual names"
        raise SettingError(f"targets: got {got}; the model's linear layers are {', '.join(sorted(names))}")
    return chosen


def save_adapter(adapted: PeftModel, folder: Path) -> None:
    """Write the adapters alone, in peft's format."""
    from peft import get_peft_model_state_dict

    # peft's own save_pretrained also writes an empty model card and looks the base model up on the hub.
    config = adapted.peft_config["default"]
    config.inference_mode = True
    config.save_pretrained(str(folder))
    weights = get_peft_model_state_dict(adapted, save_embedding_layers=False)
    content = {name: weight.detach().cpu().contiguous() for name, weight in weights.items()}
    save_file(content, folder / "adapter_model.safetensors", metadata={"format": "pt"})


def merge_adapters(adapted: PeftModel) -> None:
    """Merge the adapters into the weights and remove them, so that the network is a plain one again."""
    network = cast(PreTrainedModel, adapted.get_base_model())
    tied = network.config.tie_word_embeddings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adapted.merge_and_unload()
    # peft mistakes separate encoder and decoder embeddings for an untied output projection.
    network.config.tie_word_embeddings = tied
