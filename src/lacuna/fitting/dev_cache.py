"""Passes of dev pairs through a model, kept on disk, so that every command that reads dev shares one of them.

They are in the user's cache folder, not in a store: the same pass serves a store, its pruned copies and several
memories, and stores stay what ``lacuna build`` wrote. One folder holds the outputs for one window of dev pairs, so the
first 500 pairs of a dev set share the folders of its first 2,000. Everything can be deleted at any time. Whatever does
not match its manifest is removed and computed again. Does not run the model.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.artifacts.arrays import save_array
from lacuna.artifacts.manifests import Record, read_manifest, write_sealed
from lacuna.artifacts.user_cache import user_cache
from lacuna.datastore.columns import record_of
from lacuna.datastore.manifest import FileRecord
from lacuna.errors import LacunaError
from lacuna.models import Model, TeacherForced
from lacuna.records import SentencePair

FORMAT = 1
MANIFEST = "manifest.json"
# Bytes of all passes together; the ones that were not used for the longest time are removed first.
MAX_BYTES = 2**31

_UNFINISHED = ".unfinished-"
_SECONDS_UNFINISHED = 86_400
_DTYPES = {
    "sentences": np.int64,
    "gold": np.int64,
    "keys": np.float32,
    "predictions": np.int64,
    "log_p_gold": np.float32,
    "entropy": np.float32,
    "lengths": np.int64,
    "batches": np.int64,
}

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False, slots=True)
class ModelBatch:
    """Some dev pairs after the model's pass. Rows run over sentences, then positions.

    :param sentences: Place in the dev set of each token's pair: (tokens,).
    :param gold: The reference tokens: (tokens,).
    :param outputs: The model's keys, predictions and probabilities at these tokens.
    """

    sentences: torch.Tensor
    gold: torch.Tensor
    outputs: TeacherForced


class DevPassManifest(Record):
    """Content of ``manifest.json``.

    :param inputs: What the outputs depend on; the name of the folder is its hash.
    """

    format: int = FORMAT
    kind: Literal["dev pass"] = "dev pass"
    inputs: dict[str, str]
    files: dict[str, FileRecord]


def cache_folder() -> Path:
    """Return the folder of the cache: ``lacuna/dev-passes`` below the user's cache folder."""
    return user_cache() / "dev-passes"


def pass_inputs(model: Model, pairs: Sequence[SentencePair], batch_size: int) -> dict[str, str]:
    """Return everything that the outputs for some pairs depend on, to the last bit."""
    digest = hashlib.sha256()
    # As the tokenizer reads them: what is masked, and how, may change.
    for texts in ([pair.source for pair in pairs], [pair.target for pair in pairs]):
        digest.update(json.dumps(list(model.mask_texts(texts))).encode())
    direction = model.direction
    return {
        "model": model.fingerprint,
        "direction": f"{direction.languages} {direction.source_prefix!r} {list(direction.start_ids)}",
        "precision": f"{model.projection.weight.dtype} on {model.device.type}",
        "torch": f"{torch.__version__} {torch.backends.cpu.get_cpu_capability()}",
        "batch": str(batch_size),
        "dev": digest.hexdigest(),
    }


class DevCache:
    """A folder of passes.

    :param folder: Created when the first pass is saved.
    :param max_bytes: See :data:`MAX_BYTES`.
    """

    def __init__(self, folder: Path | None = None, max_bytes: int = MAX_BYTES) -> None:
        self._folder, self._max_bytes = folder or cache_folder(), max_bytes

    def load(self, inputs: dict[str, str], first: int) -> list[ModelBatch] | None:
        """Return the batches of a pass, memory-mapped; ``None`` if there is none, or if it is damaged.

        :param first: Place in the dev set of the first pair of the window.
        """
        folder = self._folder / _key(inputs)
        if not folder.exists():
            return None
        try:
            arrays = _read(folder, inputs)
            os.utime(folder / MANIFEST)  # used now
        except (LacunaError, OSError, ValueError):
            shutil.rmtree(folder, ignore_errors=True)
            return None
        return _to_batches(arrays, first)

    def save(self, inputs: dict[str, str], batches: Sequence[ModelBatch], first: int) -> None:
        """Save a pass. Failure to write is no error: what is not kept is computed again."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            temporary = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self._folder))
            try:
                _write(temporary, inputs, _to_arrays(batches, first))
                temporary.rename(self._folder / _key(inputs))  # fails if another process was faster
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
            self._remove_old(keep=_key(inputs))
        except OSError:
            return

    def _remove_old(self, keep: str) -> None:
        used: list[tuple[float, int, Path]] = []
        for folder in self._folder.iterdir():
            if folder.name.startswith(_UNFINISHED):
                if time.time() - folder.stat().st_mtime > _SECONDS_UNFINISHED:
                    shutil.rmtree(folder, ignore_errors=True)
            elif (folder / MANIFEST).exists() and folder.name != keep:
                size = sum(file.stat().st_size for file in folder.iterdir())
                used.append(((folder / MANIFEST).stat().st_mtime, size, folder))
        left = self._max_bytes
        for _, size, folder in sorted(used, reverse=True):
            left -= size
            if left < 0:
                shutil.rmtree(folder, ignore_errors=True)


def _key(inputs: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps([FORMAT, inputs], sort_keys=True).encode()).hexdigest()[:32]


def _write(folder: Path, inputs: dict[str, str], arrays: Arrays) -> None:
    for name, array in arrays.items():
        save_array(folder / f"{name}.npy", array)
    files = {f"{name}.npy": record_of(folder / f"{name}.npy") for name in arrays}
    write_sealed(folder / MANIFEST, DevPassManifest(inputs=inputs, files=files))


def _read(folder: Path, inputs: dict[str, str]) -> Arrays:
    """Read and check the arrays of a pass.

    :raises LacunaError: The manifest is missing, damaged or of another pass.
    :raises ValueError: A file does not match the manifest.
    """
    manifest = read_manifest(folder / MANIFEST, DevPassManifest, LacunaError, missing="missing", again="compute again")
    if manifest.inputs != inputs or set(manifest.files) != {f"{name}.npy" for name in _DTYPES}:
        raise ValueError("another pass")
    arrays: Arrays = {}
    for name, dtype in _DTYPES.items():
        path = folder / f"{name}.npy"
        if record_of(path) != manifest.files[path.name]:
            raise ValueError("damaged")
        # Copied on write: torch warns of arrays that cannot be written.
        arrays[name] = np.load(path, mmap_mode="c", allow_pickle=False)
        if arrays[name].dtype != dtype:
            raise ValueError("of another type")
    return arrays


def _to_arrays(batches: Sequence[ModelBatch], first: int) -> Arrays:
    def joined(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(batch.outputs, name).numpy() for batch in batches])

    columns = {name: joined(name) for name in ("keys", "predictions", "log_p_gold", "entropy")}
    columns["sentences"] = np.concatenate([batch.sentences.numpy() for batch in batches]) - first
    columns["gold"] = np.concatenate([batch.gold.numpy() for batch in batches])
    columns["lengths"] = np.array([length for batch in batches for length in batch.outputs.lengths])
    columns["batches"] = np.array([len(batch.outputs.lengths) for batch in batches])
    return {name: columns[name].astype(dtype, copy=False) for name, dtype in _DTYPES.items()}


def _to_batches(arrays: Arrays, first: int) -> list[ModelBatch]:
    ends = np.cumsum(arrays["batches"])
    batches, row = [], 0
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        lengths = tuple(arrays["lengths"][start:end].tolist())
        rows = slice(row, row + sum(lengths))
        keys, predictions, log_p_gold, entropy, gold = (
            torch.from_numpy(arrays[name][rows]) for name in ("keys", "predictions", "log_p_gold", "entropy", "gold")
        )
        sentences = torch.from_numpy(arrays["sentences"][rows] + first)
        batches.append(ModelBatch(sentences, gold, TeacherForced(keys, predictions, log_p_gold, entropy, lengths)))
        row = rows.stop
    return batches
