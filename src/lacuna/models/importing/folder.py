"""What every import ends with: a Hugging Face folder whose weights were checked against the architecture, and a report.

Knows configs and tensors of transformers; nothing of where they come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import AutoModelForSeq2SeqLM, PreTrainedConfig, PreTrainedModel

from lacuna.errors import ModelError
from lacuna.files import atomic_path, write_json, write_text
from lacuna.records import Languages


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What was imported.

    :param kind: ``fairseq``, ``ctranslate2`` or ``argos``.
    :param source_vocabulary: Tokens of the source side, with those that had to be added.
    :param tensors_ignored: Tensors of the source that carry nothing, by its own names.
    :param notes: What a user should know of the conversion.
    """

    kind: str
    into: Path
    parameters: int
    source_vocabulary: int
    target_vocabulary: int
    languages: Languages | None
    tensors_ignored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the report for machines."""
        languages = None if self.languages is None else str(self.languages)
        return asdict(self) | {"into": str(self.into), "languages": languages}


def write_weights(
    folder: Path,
    config: PreTrainedConfig,
    tensors: Mapping[str, torch.Tensor],
    *,
    banned: tuple[int, ...] = (),
    name: str,
) -> int:
    """Write weights, config.json and generation_config.json; return the number of parameters.

    :param banned: Tokens that are never generated.
    :param name: The source, for messages.
    """
    network = _empty_network(config, name)
    _check_tensors(network, tensors, name)
    with atomic_path(folder / "model.safetensors") as temporary:
        save_file(_separate(tensors), temporary, metadata={"format": "pt"})
    config.architectures = [type(network).__name__]
    write_text(folder / "config.json", config.to_json_string())
    special = {key: getattr(config, key) for key in ("decoder_start_token_id", "eos_token_id", "pad_token_id")}
    bans = {"bad_words_ids": [[token] for token in banned]} if banned else {}
    write_json(folder / "generation_config.json", special | bans)
    return sum(tensor.numel() for tensor in tensors.values())


def agreed_languages(asked: Languages | None, own: Languages | None, name: str) -> Languages | None:
    """Settle what the source says of its direction with what the user says."""
    if asked is not None and own is not None and asked != own:
        raise ModelError(f"{name} translates {own}, not {asked}; leave the languages out, or write {own}")
    return asked or own


def _separate(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Give tensors as float32, each with memory of its own: safetensors stores none twice."""
    places = set()
    separate = {}
    for name, tensor in tensors.items():
        whole = tensor.detach().float().contiguous()
        separate[name] = whole.clone() if whole.data_ptr() in places else whole
        places.add(whole.data_ptr())
    return separate


def _empty_network(config: PreTrainedConfig, name: str) -> PreTrainedModel:
    """Build the architecture without memory for its weights."""
    try:
        with torch.device("meta"):
            network: PreTrainedModel = AutoModelForSeq2SeqLM.from_config(config)
    except (ValueError, TypeError, AssertionError, RuntimeError, ZeroDivisionError) as error:
        raise ModelError(f"{name}: its sizes make no model ({str(error).splitlines()[0][:200]})") from error
    return network


def _check_tensors(network: PreTrainedModel, tensors: Mapping[str, torch.Tensor], name: str) -> None:
    """Refuse weights that are too many, too few or of another shape than the architecture's."""
    expected = {key: tuple(tensor.shape) for key, tensor in network.state_dict().items()}
    # Sinusoids are computed anew, and tied weights are stored once.
    left_out = {*network.all_tied_weights_keys, *(key for key in expected if "embed_positions" in key)}
    for key, shape in expected.items():
        if key not in tensors and key not in left_out:
            raise ModelError(f"{name}: has no tensor for {key}; it is incomplete, or of another architecture")
        if key in tensors and tuple(tensors[key].shape) != shape:
            got = tuple(tensors[key].shape)
            raise ModelError(f"{name}: {key} is {got} where the rest of the model needs {shape}; it is damaged")
    if unknown := sorted(set(tensors) - set(expected)):
        raise ModelError(f"{name}: has {unknown[0]}, which the architecture does not")
