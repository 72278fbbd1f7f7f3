"""The whole state of a run in one file, so that a run killed at any moment goes on as if it had not been.

One safetensors file, replaced atomically: weights, optimizer moments, the random generator, and the counters as
JSON in the header. Knows nothing of what the counters mean.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import nn
from torch.optim.optimizer import Optimizer

from lacuna.errors import TrainingError
from lacuna.files import atomic_path


def save_state(path: Path, network: nn.Module, optimizer: Optimizer, counters: Mapping[str, Any]) -> None:
    """Write everything that the next step depends on."""
    tensors = {f"weight/{name}": weight for name, weight in trained_weights(network).items()}
    for place, moments in optimizer.state_dict()["state"].items():
        for name, value in moments.items():
            tensors[f"moment/{place}/{name}"] = torch.as_tensor(value)
    tensors["random"] = torch.get_rng_state()
    # Copies that share memory (a scalar step of several groups) are refused by the format.
    content = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
    with atomic_path(path) as temporary:
        save_file(content, temporary, metadata={"counters": json.dumps(counters)})


def load_state(path: Path, network: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """Put a saved state back and return its counters."""
    try:
        with safe_open(path, framework="pt") as file:
            counters: dict[str, Any] = json.loads(file.metadata()["counters"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, KeyError, ValueError) as error:
        raise TrainingError(f"{path}: not a training state ({error}); remove it to start anew") from error
    put_weights(network, {name.removeprefix("weight/"): t for name, t in tensors.items() if name.startswith("weight/")})
    moments: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        kind, *place = name.split("/")
        if kind == "moment":
            moments.setdefault(int(place[0]), {})[place[1]] = tensor
    optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})
    torch.set_rng_state(tensors["random"])
    return counters


def trained_weights(network: nn.Module) -> dict[str, torch.Tensor]:
    """Return the weights that training changes, each once."""
    return {name: weight for name, weight in network.named_parameters() if weight.requires_grad}


@torch.no_grad()
def put_weights(network: nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Copy weights into a network that must have exactly these."""
    own = trained_weights(network)
    wrong = set(own) ^ set(weights) or {name for name in own if own[name].shape != weights[name].shape}
    if wrong:
        raise TrainingError(
            f"weights do not fit the network: {sorted(wrong)[0]} and {len(wrong) - 1} more differ; "
            "use the settings that the run was started with"
        )
    for name, weight in own.items():
        weight.copy_(weights[name])


def save_weights(path: Path, network: nn.Module) -> None:
    """Write the weights alone (for averaging)."""
    with atomic_path(path) as temporary:
        save_file({name: weight.detach().contiguous() for name, weight in trained_weights(network).items()}, temporary)


def average_weights(paths: Sequence[Path]) -> dict[str, torch.Tensor]:
    """Return the mean of saved weights, summed in double precision so that the order does not show."""
    total: dict[str, torch.Tensor] = {}
    for path in paths:
        for name, weight in load_file(path).items():
            total[name] = total[name] + weight.double() if name in total else weight.double()
    return {name: (weight / len(paths)).float() for name, weight in total.items()}
