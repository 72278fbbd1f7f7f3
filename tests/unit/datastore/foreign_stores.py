"""Stores as other toolkits write them, from a tiny model that was taught a few sentences."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from lacuna.models import Model, load_model
from lacuna.records import Origin, SentencePair
from unit.models.tiny_models import SOURCES, TARGETS, in_torch

PAIRS = [
    SentencePair(source, target, Origin("tiny", str(place + 1)))
    for place, (source, target) in enumerate(
        zip(SOURCES * 3, [*TARGETS, *TARGETS[::-1], *TARGETS[1:], "yes"], strict=True)
    )
]


def mark_norms(model: Model, seed: int = 3) -> None:
    """Give every norm weights of its own, as training does: fresh ones are all 1, and cannot be told apart."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in model.hf.modules():
            if "Norm" in type(module).__name__:
                module.weight.copy_(torch.rand(module.weight.shape, generator=generator) * 1.5 + 0.5)
                if getattr(module, "bias", None) is not None:
                    module.bias.copy_(torch.randn(module.bias.shape, generator=generator) * 0.3)


def teach(folder: Path, steps: int = 25) -> None:
    """Teach a saved model the pairs, so that it knows some tokens and others not."""
    model = load_model(folder, device="cpu")
    mark_norms(model)
    model.hf.requires_grad_(True)
    sources, targets = (texts([text for text in column]) for texts, column in _sides(model))
    ids, mask = model._padded(sources)
    inputs, _ = model._padded([[*model.start_ids, *target[:-1]] for target in targets])
    gold, real = model._padded(targets)
    optimizer = torch.optim.Adam(model.hf.parameters(), lr=1e-2)
    for _ in range(steps):
        logits = model.hf(input_ids=ids, attention_mask=mask, decoder_input_ids=inputs, use_cache=False).logits
        optimizer.zero_grad()
        F.cross_entropy(logits[real.bool()], gold[real.bool()]).backward()
        optimizer.step()
    model.hf.save_pretrained(folder)


def _sides(model: Model) -> list[Any]:
    return [
        (model.encode_sources, [pair.source for pair in PAIRS]),
        (model.encode_targets, [pair.target for pair in PAIRS]),
    ]


@dataclass(frozen=True)
class Table:
    """What a forced pass over the pairs gives, one sentence at a time."""

    out: NDArray[np.float32]
    ffn_in: NDArray[np.float32]
    values: NDArray[np.int64]
    predictions: NDArray[np.int64]
    lengths: list[int]


def feed_forward_of(model: Model) -> torch.nn.Module:
    """Find the module whose input is a key of kind ffn_in."""
    decoder: Any = model.fast_forward.hf.get_decoder()
    block: torch.nn.Module = decoder.block[-1].layer[-1].DenseReluDense if hasattr(decoder, "block") else None
    return block if block is not None else decoder.layers[-1].fc1


def read_pairs(model: Model, pairs: list[SentencePair] = PAIRS) -> Table:
    caught: list[torch.Tensor] = []
    model = in_torch(model)
    hook = feed_forward_of(model).register_forward_hook(lambda module, given, output: caught.append(given[0]))
    outs, predictions, targets = [], [], model.encode_targets([pair.target for pair in pairs])
    for source, target in zip(model.encode_sources([pair.source for pair in pairs]), targets, strict=True):
        forced = model.teacher_force([source], [target])
        outs.append(forced.keys.numpy())
        predictions.append(forced.predictions.numpy())
    hook.remove()
    first = len(model.start_ids) - 1
    ffn_in = [states.reshape(-1, states.shape[-1])[first:].numpy() for states in caught]
    values = np.array([token for target in targets for token in target])
    return Table(
        np.concatenate(outs), np.concatenate(ffn_in), values, np.concatenate(predictions), list(map(len, targets))
    )


def write_knn_box(folder: Path, keys: NDArray[Any], values: NDArray[np.int64], **extras: NDArray[np.int64]) -> Path:
    folder.mkdir()
    columns = {"keys": keys.astype(np.float16), "vals": values, **extras}
    infos = {}
    for name, column in columns.items():
        column.tofile(folder / f"{name}.npy")
        dtype = "<class 'numpy.float16'>" if name == "keys" else "<class 'int'>"
        infos[name] = {"name": name, "shape": column.shape, "dtype": dtype}
    (folder / "config.json").write_text(json.dumps({"data_list": list(columns), "data_infos": infos}))
    (folder / "keys.faiss_index").write_bytes(b"not for us")
    return folder


def write_adaptive(
    folder: Path, keys: NDArray[Any], values: NDArray[Any], *, dtype: Any = np.float16, ghosts: int = 0
) -> Path:
    folder.mkdir()
    rows = len(keys) + ghosts
    all_keys, all_values = np.zeros((rows, keys.shape[1]), dtype=dtype), np.zeros((rows, 1), dtype=values.dtype)
    all_keys[: len(keys)], all_values[: len(keys), 0] = keys, values
    all_keys.tofile(folder / "keys.npy")
    all_values.tofile(folder / "vals.npy")
    return folder


def write_knn_transformers(folder: Path, keys: NDArray[Any], values: NDArray[np.int64]) -> Path:
    folder.mkdir()
    stem = f"dstore_marian_{len(keys)}_{keys.shape[1]}"
    keys.astype(np.float16).tofile(folder / f"{stem}_keys.npy")
    values.astype(np.int32).reshape(-1, 1).tofile(folder / f"{stem}_vals.npy")
    (folder / f"index_marian_{len(keys)}_{keys.shape[1]}.indexed").write_bytes(b"not for us")
    return folder
