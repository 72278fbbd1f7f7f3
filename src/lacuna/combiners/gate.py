"""A gate decides, before any search, whether the memories would have something to say about a query that matters.

It looks at what costs next to nothing. First, how far an unfinished translation is behind the best of its sentence:
those far behind hardly ever win, whatever the memories say of them. Then how sure the model is, and in which region of
the keys the query lies: how far from its center, how large the margins of the entries there are, and how many of them
the model does not know. From these a small network foretells the gain of a search: how much more probable the right
token would become. Where that is below the threshold, no search is made, and the model's word stands. Knows nothing of
stores or of search.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from lacuna.errors import CombinerError
from lacuna.files import atomic_folder, atomic_path, sha256_of, write_json
from lacuna.manifests import Record, read_manifest
from lacuna.version import __version__

_HIDDEN = 16
# What keeps the logarithm of a doubt finite where the model has none.
_LEAST_DOUBT = 1e-4
FEATURES = ("log p", "log doubt", "distance", "margin", "unknown")


class Regions(NamedTuple):
    """Where the keys of the memories lie.

    :param centers: (regions, dimension).
    :param traits: Of the entries of each: the mean of log(1 + margin), and the share that the model does not know:
        (regions, 2).
    """

    centers: torch.Tensor
    traits: torch.Tensor

    def describe(self, keys: torch.Tensor) -> torch.Tensor:
        """Give the distance from the nearest center, and that region's traits: (rows, 3)."""
        # |k - c|^2 without |k|^2 has the same nearest center, and needs one product.
        products = torch.addmm(self.centers.square().sum(1), keys, self.centers.T, alpha=-2)
        nearest, place = products.min(1)
        distances = (nearest + keys.square().sum(1)).clamp(min=0).sqrt()
        return torch.cat([distances[:, None], self.traits[place]], dim=1)


@dataclass(frozen=True, eq=False)
class Gate:
    """Tells which queries are worth a search.

    :param network: From normalized features to the foretold gain, in nats.
    :param mean: Of the features, where it was fitted: (features,).
    :param spread: Their standard deviation: (features,).
    :param threshold: The least gain that is worth a search; at minus infinity the network is not asked.
    :param reach: The most nats that a translation may be behind to be worth a search.
    """

    regions: Regions
    network: nn.Sequential
    mean: torch.Tensor
    spread: torch.Tensor
    threshold: float = -torch.inf
    reach: float = torch.inf

    def features(self, keys: torch.Tensor, log_probs: torch.Tensor) -> torch.Tensor:
        """Give what the network sees, not normalized; see :data:`FEATURES`.

        :param keys: (rows, dimension).
        :param log_probs: Of the model: (rows, vocabulary).
        """
        return gate_features(self.regions, keys, log_probs.amax(1))

    def gains(self, features: torch.Tensor) -> torch.Tensor:
        """Foretell the gain of a search: (rows,)."""
        foretold: torch.Tensor = self.network((features - self.mean) / self.spread)
        return foretold[:, 0]

    @torch.inference_mode()
    def wants(self, keys: torch.Tensor, log_probs: torch.Tensor, behind: torch.Tensor | None = None) -> torch.Tensor:
        """Tell which rows are worth a search: (rows,).

        :param behind: How much less probable each translation is than the best of its sentence, in nats; without it,
            none is behind: (rows,).
        """
        near = keys.new_ones(len(keys), dtype=torch.bool) if behind is None else behind <= self.reach
        if self.threshold == -torch.inf:
            return near
        keys = keys.to(self.mean)
        gains = self.gains(self.features(keys, log_probs.to(self.mean.device)))
        return near & (gains >= self.threshold).to(near.device)


def gate_features(regions: Regions, keys: torch.Tensor, log_p_best: torch.Tensor) -> torch.Tensor:
    """Put the features of some queries side by side.

    :param log_p_best: Log-probability of the model's own choice: (rows,).
    """
    doubt = (1 - log_p_best.exp()).clamp(min=_LEAST_DOUBT).log()
    return torch.cat([log_p_best[:, None], doubt[:, None], regions.describe(keys)], dim=1)


def make_gate_network() -> nn.Sequential:
    """Return the network with fresh weights, from torch's generator."""
    return nn.Sequential(nn.Linear(len(FEATURES), _HIDDEN), nn.Tanh(), nn.Linear(_HIDDEN, 1))


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
