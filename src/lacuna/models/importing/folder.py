"""Write the Hugging Face folder of an imported model, with weights checked against the architecture; and its report.

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

from lacuna.artifacts.files import atomic_path, write_json, write_text
from lacuna.errors import ModelError
from lacuna.records import Languages


@dataclass(frozen=True, slots=True)
class ImportReport:
    """Result of an import.

    :param kind: ``fairseq``, ``ctranslate2`` or ``argos``.
    :param source_vocabulary: Number of source tokens, including added ones.
    :param tensors_ignored: Names of tensors in the source that hold no information.
    :param notes: Remarks on the conversion, for the user.
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
        """Return the report as JSON."""
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
    :param name: Name of the source in messages.
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
    """Check the direction that the user wrote against that of the source."""
    if asked is not None and own is not None and asked != own:
        raise ModelError(f"{name} translates {own}, not {asked}; leave the languages out, or write {own}")
    return asked or own


def _separate(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return float32 tensors that do not share memory, as safetensors requires."""
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
        raise ModelError(f"{name}: its sizes do not form a valid model ({str(error).splitlines()[0][:200]})") from error
    return network


def _check_tensors(network: PreTrainedModel, tensors: Mapping[str, torch.Tensor], name: str) -> None:
    """Refuse missing, unknown and wrongly shaped weights."""
    expected = {key: tuple(tensor.shape) for key, tensor in network.state_dict().items()}
    # Sinusoids are computed again, and tied weights are stored once.
    left_out = {*network.all_tied_weights_keys, *(key for key in expected if "embed_positions" in key)}
    for key, shape in expected.items():
        if key not in tensors and key not in left_out:
            raise ModelError(f"{name}: has no tensor for {key}; it is incomplete, or of another architecture")
        if key in tensors and tuple(tensors[key].shape) != shape:
            got = tuple(tensors[key].shape)
            raise ModelError(f"{name}: {key} is {got} where the rest of the model needs {shape}; it is damaged")
    if unknown := sorted(set(tensors) - set(expected)):
        raise ModelError(f"{name}: has {unknown[0]}, which the architecture does not")
