"""The gate decides before each search whether it is worth its time; :mod:`lacuna.fitting.gate` fits it.

Two cheap tests. The beam threshold: a hypothesis with a large score gap hardly ever wins, whatever its neighbors are.
The predicted gain: a small network estimates how much more probable, in nats, a search would make the right token. Its
features are the model's confidence and a description of the region of the keys in which the query lies. Below either
bound no search is made and the model's distribution stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from lacuna.artifacts.files import atomic_folder, atomic_path, sha256_of
from lacuna.artifacts.manifests import Record, read_manifest, write_sealed
from lacuna.combiners.storage import saving
from lacuna.errors import CombinerError
from lacuna.version import __version__

_HIDDEN = 16
# Keeps log(1 - p) finite where p is 1.
_MIN_DOUBT = 1e-4
FEATURES = ("log p", "log doubt", "distance", "margin", "unknown")


class Regions(NamedTuple):
    """K-means cells of the keys of the memories.

    :param centers: Centroids: (regions, dimension).
    :param traits: Mean of log(1 + margin) and share of unknown entries in each region: (regions, 2).
    """

    centers: torch.Tensor
    traits: torch.Tensor

    def describe(self, keys: torch.Tensor) -> torch.Tensor:
        """Return the distance to the nearest center and the traits of its region: (rows, 3)."""
        # |k - c|^2 without |k|^2 has the same minimum and takes one matrix product.
        products = torch.addmm(self.centers.square().sum(1), keys, self.centers.T, alpha=-2)
        nearest, region = products.min(1)
        distances = (nearest + keys.square().sum(1)).clamp(min=0).sqrt()
        return torch.cat([distances[:, None], self.traits[region]], dim=1)


@dataclass(frozen=True, eq=False)
class Gate:
    """Selects the queries that are worth a search.

    :param network: Maps normalized features to the predicted gain of a search, in nats.
    :param mean: Mean of the features on the dev set: (features,).
    :param spread: Their standard deviation: (features,).
    :param threshold: Smallest predicted gain that is worth a search; at minus infinity the network is not used.
    :param beam_threshold: Largest score gap, in nats, at which a search is made.
    """

    regions: Regions
    network: nn.Sequential
    mean: torch.Tensor
    spread: torch.Tensor
    threshold: float = -torch.inf
    beam_threshold: float = torch.inf

    def gains(self, features: torch.Tensor) -> torch.Tensor:
        """Predict the gain of a search, in nats: (rows,)."""
        predicted: torch.Tensor = self.network((features - self.mean) / self.spread)
        return predicted[:, 0]

    @torch.inference_mode()
    def wants(
        self, keys: torch.Tensor, log_p_best: torch.Tensor, score_gap: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return which rows are worth a search: (rows,).

        :param keys: (rows, dimension).
        :param log_p_best: Log-probability of the model's prediction: (rows,).
        :param score_gap: How many nats each hypothesis is below the best one of its sentence; ``None`` means 0 for
            all: (rows,).
        """
        near = keys.new_ones(len(keys), dtype=torch.bool) if score_gap is None else score_gap <= self.beam_threshold
        if self.threshold == -torch.inf:
            return near
        keys = keys.to(self.mean)
        gains = self.gains(gate_features(self.regions, keys, log_p_best.to(self.mean)))
        return near & (gains >= self.threshold).to(near.device)


def gate_features(regions: Regions, keys: torch.Tensor, log_p_best: torch.Tensor) -> torch.Tensor:
    """Return the input of the network before normalization, see :data:`FEATURES`: (rows, features).

    :param log_p_best: Log-probability of the model's prediction: (rows,).
    """
    doubt = (1 - log_p_best.exp()).clamp(min=_MIN_DOUBT).log()
    return torch.cat([log_p_best[:, None], doubt[:, None], regions.describe(keys)], dim=1)


def make_gate_network() -> nn.Sequential:
    """Return a network with new weights, drawn from torch's global generator."""
    return nn.Sequential(nn.Linear(len(FEATURES), _HIDDEN), nn.Tanh(), nn.Linear(_HIDDEN, 1))


FOLDER = "gate"
_MANIFEST, _WEIGHTS = "gate.json", "gate.safetensors"


class GateManifest(Record):
    """Content of ``gate.json``.

    :param threshold: Smallest predicted gain that is worth a search, in nats; ``None`` where gains are not predicted.
    :param reach: The beam threshold, under its name in the file: largest score gap at which a search is made, in nats;
        ``None`` for no bound.
    :param searched: Share of the decoding steps on dev at which it searches.
    :param lost: Share of the total gain of all searches that ``threshold`` may lose.
    :param bleu: BLEU of dev without the gate and with it.
    :param p_decline: p-value of the decline of BLEU; small if the gate lowers it significantly.
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
    """Write a gate into its combiner's folder; return the manifest with the hash of the weights."""
    tensors = {f"network.{name}": weight for name, weight in gate.network.state_dict().items()}
    tensors |= {"mean": gate.mean, "spread": gate.spread}
    tensors |= {"centers": gate.regions.centers, "traits": gate.regions.traits}
    with saving(combiner), atomic_folder(combiner / FOLDER) as temporary:
        with atomic_path(temporary / _WEIGHTS) as file:
            save_file({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}, file)
        manifest = manifest.model_copy(update={"weights": sha256_of(temporary / _WEIGHTS)})
        write_sealed(temporary / _MANIFEST, manifest)
    return manifest


def load_gate(combiner: str | Path) -> tuple[Gate, GateManifest]:
    """Read the gate of a combiner.

    :raises CombinerError: The combiner has no gate, or it is damaged.
    """
    folder = Path(combiner) / FOLDER
    again = "fit the combiner again with a gate"
    manifest = read_manifest(
        folder / _MANIFEST,
        GateManifest,
        CombinerError,
        missing=f"{combiner}: this combiner has no gate; {again}, or leave `gate` out",
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
        beam_threshold = torch.inf if manifest.reach is None else manifest.reach
        network.requires_grad_(False)
        gate = Gate(regions, network, tensors["mean"], tensors["spread"], threshold, beam_threshold)
    except OSError as error:
        raise CombinerError(f"{path}: cannot be read ({error.strerror}); {again}") from error
    except (SafetensorError, RuntimeError, KeyError) as error:
        raise CombinerError(f"{path}: does not hold a gate ({error}); {again}") from error
    return gate, manifest


def _network_names(tensors: dict[str, torch.Tensor]) -> list[str]:
    return [name for name in tensors if name.startswith("network.")]
