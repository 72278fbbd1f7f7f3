"""LoRA by peft: which layers get adapters, and how these are saved and folded into the plain weights.

Knows networks as trees of named layers; nothing of text or training.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, cast

from safetensors.torch import save_file
from torch import nn
from transformers import PreTrainedModel

from lacuna.errors import MissingExtra, SettingError
from lacuna.models.finetuning.settings import LoraSettings

if TYPE_CHECKING:
    from peft import PeftModel

# Queries and values of attention, and the feed-forward layers, by the names they have in BART's kin and in T5's.
_USUAL_TARGETS = ("q_proj", "v_proj", "fc1", "fc2", "q", "v", "wi", "wi_0", "wi_1", "wo")
# The output projection: often the very weights of the embeddings, and what a memory's keys are made for.
_PROJECTIONS = ("lm_head", "output_projection")


def add_adapters(network: PreTrainedModel, settings: LoraSettings, name: str) -> PeftModel:
    """Put adapters into a network, in place; from then on they alone can be trained.

    :param name: Of the model, for whoever the adapter is shared with.
    """
    try:
        from peft import LoraConfig, TaskType, get_peft_model
    except ImportError as error:
        raise MissingExtra('LoRA needs the package peft; pip install "lacuna-mt[lora]"') from error
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.strength,
        lora_dropout=settings.dropout,
        target_modules=choose_targets(network, settings.targets),
        task_type=TaskType.SEQ_2_SEQ_LM,
    )
    adapted: PeftModel = get_peft_model(network, config)
    config.base_model_name_or_path = name
    return adapted


def choose_targets(network: nn.Module, asked: tuple[str, ...] | None) -> list[str]:
    """Return the names of layers that get an adapter; refuse those the network does not have."""
    names = {path.rpartition(".")[2] for path, module in network.named_modules() if isinstance(module, nn.Linear)}
    names -= set(_PROJECTIONS)
    chosen = [name for name in asked or _USUAL_TARGETS if name in names]
    unknown = [name for name in asked or () if name not in names]
    if unknown or not chosen:
        got = ", ".join(unknown) or "none of the usual names"
        raise SettingError(f"targets: got {got}; the model's linear layers are {', '.join(sorted(names))}")
    return chosen


def save_adapter(adapted: PeftModel, folder: Path) -> None:
    """Write the adapters alone, as peft itself reads them."""
    from peft import get_peft_model_state_dict

    # peft's own saving would also write a page of empty headings, and ask the hub about the base model.
    config = adapted.peft_config["default"]
    config.inference_mode = True
    config.save_pretrained(str(folder))
    weights = get_peft_model_state_dict(adapted, save_embedding_layers=False)
    content = {name: weight.detach().cpu().contiguous() for name, weight in weights.items()}
    save_file(content, folder / "adapter_model.safetensors", metadata={"format": "pt"})


def merge_adapters(adapted: PeftModel) -> None:
    """Fold the adapters into the weights they stand beside, and take them out: the network is a plain one again."""
    network = cast(PreTrainedModel, adapted.get_base_model())
    tied = network.config.tie_word_embeddings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adapted.merge_and_unload()
    # peft takes a decoder with embeddings of its own for one whose projection has come apart from them.
    network.config.tie_word_embeddings = tied
