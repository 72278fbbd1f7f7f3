"""A gate as a folder beside the combiner it was fitted for: ``gate.json`` and ``gate.safetensors``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from lacuna.combiners.gate import Gate, Regions, make_gate_network
from lacuna.errors import CombinerError
from lacuna.files import atomic_folder, atomic_path, sha256_of, write_json
from lacuna.manifests import Record, read_manifest
from lacuna.version import __version__

FOLDER = "gate"
_MANIFEST, _WEIGHTS = "gate.json", "gate.safetensors"


class GateManifest(Record):
    """A saved gate.

    :param threshold: The least foretold gain that is worth a search, in nats; ``None`` where gains are not foretold.
    :param reach: The most nats that a translation may be behind the best of its sentence to be worth a search; ``None``
        where it may be any number.
    :param searched: The share of steps of dev translations that it searched at.
    :param lost: The share of what searches gain that the threshold may lose.
    :param bleu: Of dev, without the gate and with it.
    :param p_decline: Small if the gate lowers that by more than chance.
    :param model: Fingerprint of the model.
    """

    format: int = 1
    kind: Literal["gate"] = "gate"
    lacuna: str = __version__
    threshold: float | None
    reach: float | None = None
    searched: float
    lost: float = 0.0
    bleu: tuple[float, float]
    p_decline: float
    model: str
    seed: int
    weights: str = ""


def save_gate(gate: Gate, combiner: Path, manifest: GateManifest) -> GateManifest:
    """Write a gate into the folder of its combiner."""
    tensors = {f"network.{name}": weight for name, weight in gate.network.state_dict().items()}
    tensors |= {"mean": gate.mean, "spread": gate.spread}
    tensors |= {"centers": gate.regions.centers, "traits": gate.regions.traits}
    with atomic_folder(combiner / FOLDER) as temporary:
        with atomic_path(temporary / _WEIGHTS) as file:
            save_file({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}, file)
        manifest = manifest.model_copy(update={"weights": sha256_of(temporary / _WEIGHTS)})
        write_json(temporary / _MANIFEST, manifest.model_dump(mode="json"))
    return manifest


def load_gate(combiner: str | Path) -> tuple[Gate, GateManifest]:
    """Read the gate of a combiner.

    :raises CombinerError: The combiner has none, or it is damaged.
    """
    folder = Path(combiner) / FOLDER
    again = "fit the combiner again with --gate"
    manifest = read_manifest(
        folder / _MANIFEST,
        GateManifest,
        CombinerError,
        missing=f"{combiner}: this combiner has no gate; {again}, or leave --gate out",
        again=again,
    )
    path = folder / _WEIGHTS
    try:
        if sha256_of(path) != manifest.weights:
            raise CombinerError(f"{path}: damaged, its hash differs from the manifest's; {again}")
        tensors = load_file(path)
        network = make_gate_network()
        network.load_state_dict({name.removeprefix("network."): tensors.pop(name) for name in _network_names(tensors)})
        regions = Regions(tensors["centers"], tensors["traits"])
        threshold = -torch.inf if manifest.threshold is None else manifest.threshold
        reach = torch.inf if manifest.reach is None else manifest.reach
        network.requires_grad_(False)
        gate = Gate(regions, network, tensors["mean"], tensors["spread"], threshold, reach)
    except OSError as error:
        raise CombinerError(f"{path}: cannot be read ({error.strerror}); {again}") from error
    except (SafetensorError, RuntimeError, KeyError) as error:
        raise CombinerError(f"{path}: does not hold a gate ({error}); {again}") from error
    return gate, manifest


def _network_names(tensors: dict[str, torch.Tensor]) -> list[str]:
    return [name for name in tensors if name.startswith("network.")]
