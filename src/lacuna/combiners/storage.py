"""Combiners on disk: ``manifest.json``, and ``weights.safetensors`` for combiners with a network.

The manifest is read strictly and holds no time and no host name, so the same fit gives the same bytes. Folders are
written atomically. Of models and stores only name, fingerprint and size are recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import Field, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import JsonValue
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from lacuna.artifacts.files import atomic_folder, atomic_path, check_unused, sha256_of
from lacuna.artifacts.manifests import Record, read_manifest, write_sealed
from lacuna.combiners.adaptive import Adaptive
from lacuna.combiners.base import Combiner, Neighbors, SavableCombiner
from lacuna.combiners.kster import Kster
from lacuna.combiners.proximity import Proximity
from lacuna.combiners.vanilla import Vanilla
from lacuna.datastore.manifest import ModelIdentity
from lacuna.errors import CombinerError, LacunaError
from lacuna.memory import Memory
from lacuna.version import __version__

COMBINERS: dict[str, type[SavableCombiner]] = {
    combiner.name: combiner for combiner in (Vanilla, Proximity, Adaptive, Kster)
}
FORMAT = 1
MANIFEST = "manifest.json"
WEIGHTS = "weights.safetensors"


class MemoryRecord(Record):
    """A memory that an artifact was fitted with. For information; other memories are accepted."""

    name: str
    fingerprint: str
    entries: int

    @classmethod
    def of(cls, memory: Memory) -> MemoryRecord:
        """Return the record of a memory."""
        return cls(name=memory.name, fingerprint=memory.fingerprint, entries=memory.entries)


class CombinerManifest(Record):
    """Content of ``manifest.json``.

    :param combiner: Name in :data:`COMBINERS`.
    :param settings: Its fields.
    :param dev_loss: Mean negative log-probability of the dev tokens by which it was chosen, in nats; ``None`` for
        settings that were not fitted.
    :param weights: SHA-256 of the weights file, if there is one.
    """

    format: int = FORMAT
    kind: Literal["combiner"] = "combiner"
    lacuna: str = __version__
    combiner: str
    settings: dict[str, JsonValue]
    model: ModelIdentity
    memories: tuple[MemoryRecord, ...]
    dev_loss: float | None
    seed: int
    weights: str | None = None


@dataclass(frozen=True, eq=False, slots=True)
class SavedCombiner:
    """A combiner with its folder and manifest, which name the model it was fitted to."""

    path: Path
    manifest: CombinerManifest
    combiner: Combiner

    @property
    def k(self) -> int:
        """Number of neighbors per query."""
        return self.combiner.k

    def mass(self, neighbors: Neighbors) -> torch.Tensor:
        """Return the mass of each neighbor."""
        return self.combiner.mass(neighbors)

    def check_model(self, fingerprint: str) -> None:
        """Refuse another model than the one it was fitted to."""
        fitted_to = self.manifest.model
        if fingerprint != fitted_to.fingerprint:
            raise CombinerError(
                f"{self.path}: fitted to another model ({fitted_to.name}, fingerprint {fitted_to.fingerprint[:12]}, "
                f"not {fingerprint[:12]}); use that model, or fit a combiner with this one: lacuna fit"
            )


def save_combiner(
    combiner: SavableCombiner,
    folder: Path,
    *,
    model: ModelIdentity,
    memories: tuple[MemoryRecord, ...],
    dev_loss: float | None,
    seed: int,
) -> SavedCombiner:
    """Write a combiner into a folder that does not exist or is empty."""
    check_unused(folder, CombinerError)
    with saving(folder), atomic_folder(folder) as temporary:
        digest = None
        if combiner.network is not None:
            weights = {name: weight.contiguous().cpu() for name, weight in combiner.network.state_dict().items()}
            with atomic_path(temporary / WEIGHTS) as file:
                save_file(weights, file)
            digest = sha256_of(temporary / WEIGHTS)
        manifest = CombinerManifest(
            combiner=combiner.name,
            settings=describe_combiner(combiner)[1],
            model=model,
            memories=memories,
            dev_loss=dev_loss,
            seed=seed,
            weights=digest,
        )
        write_sealed(temporary / MANIFEST, manifest)
    return SavedCombiner(folder, manifest, combiner)


def describe_combiner(combiner: Combiner) -> tuple[str, dict[str, JsonValue]]:
    """Return the name and the settings of a combiner; one of another kind has the name of its class."""
    if isinstance(combiner, SavedCombiner):
        return combiner.manifest.combiner, combiner.manifest.settings
    settings: tuple[Field[Any], ...] = fields(combiner) if is_dataclass(combiner) else ()
    name: str = getattr(combiner, "name", type(combiner).__name__)
    return name, {setting.name: getattr(combiner, setting.name) for setting in settings if setting.init}


def make_combiner(name: str, settings: Mapping[str, JsonValue]) -> SavableCombiner:
    """Return the combiner that :func:`describe_combiner` describes; a network has new weights."""
    return COMBINERS[name](**settings)


@contextmanager
def saving(folder: Path) -> Iterator[None]:
    """Turn a failure to write a combiner, or a part of it, into an error that names the folder."""
    try:
        yield
    except (OSError, SafetensorError) as error:  # safetensors has its own error for a full disk
        reason = getattr(error, "strerror", None) or error
        raise CombinerError(f"{folder}: cannot be written ({reason}); free space, or name another") from error


def load_combiner(path: str | Path) -> SavedCombiner:
    """Read a combiner; call :meth:`SavedCombiner.check_model` before use."""
    folder = Path(path)
    manifest = read_manifest(
        folder / MANIFEST,
        CombinerManifest,
        CombinerError,
        missing=f"{folder}: no combiner there, {MANIFEST} is missing; make one with: lacuna fit",
        again="copy or fit it again",
    )
    try:
        combiner = make_combiner(manifest.combiner, manifest.settings)
    except (KeyError, TypeError, LacunaError) as error:
        raise CombinerError(
            f"{folder / MANIFEST}: this version has no combiner {manifest.combiner} with settings {manifest.settings} "
            f"({error}); copy or fit it again"
        ) from error
    if combiner.network is not None:
        _load_weights(combiner.network, folder / WEIGHTS, manifest.weights)
    return SavedCombiner(folder, manifest, combiner)


def _load_weights(network: nn.Module, path: Path, digest: str | None) -> None:
    try:
        if sha256_of(path) != digest:
            raise CombinerError(f"{path}: damaged, its hash differs from the manifest's; copy or fit it again")
        network.load_state_dict(load_file(path))
    except OSError as error:
        raise CombinerError(f"{path}: cannot be read ({error.strerror}); copy or fit it again") from error
    except (SafetensorError, RuntimeError) as error:
        raise CombinerError(
            f"{path}: does not fit the settings in {MANIFEST} ({error}); copy or fit it again"
        ) from error
