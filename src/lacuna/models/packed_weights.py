"""Packed weights: a model with BART-like layers in the form that compiled kernels read, in memory or in a file.

Rounded weights are kept in the user's cache, one file for each model, precision and kind of processor. The file is
memory-mapped: it opens in milliseconds, processes share its pages, and the model of transformers, from which it was
made, need not be loaded at all.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import xxhash
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.numpy import save_file
from torch import nn

from lacuna.artifacts.files import atomic_path
from lacuna.artifacts.manifests import Record
from lacuna.artifacts.user_cache import cache_folder
from lacuna.errors import LacunaWarning
from lacuna.models.families import Projection
from lacuna.models.fast_decoder import Layout, position_table
from lacuna.models.linears import joined_weights

Arrays = dict[str, NDArray[Any]]

# Precision of the layers and of the output projection. The key of a memory is the output of the last layer. With 12-bit
# weights and activations its distance from the key in float32 is far below that of any other context; with 8-bit
# activations it is not. The projection may be rounded more, since the best logits are computed again.
PRECISIONS = {"float32": ("float32", "float32"), "int8": ("int16", "int8"), "bfloat16": ("bfloat16", "bfloat16")}

_STACKS = ("encoder", "decoder")
LINEARS = ("own", "own_out", "cross_query", "cross_source", "cross_out", "widen", "narrow")
NORMS = ("norms", "first_norm", "last_norm")


class StackSettings(Record):
    """Numbers that an encoder or a decoder has besides its weights; see :class:`lacuna.kernels.layers.Layers`."""

    heads: int
    activation: int
    norm_first: bool
    eps: float
    first_position: int
    scale: float


class PackedSettings(Record):
    """What a file of packed weights says about itself.

    :param columns: Outputs of a block, which depend on the processor.
    :param hash: Of the arrays and of all other settings.
    """

    format: Literal[1] = 1
    fingerprint: str
    precision: str
    columns: int
    vocabulary: int
    encoder: StackSettings
    decoder: StackSettings
    hash: str = ""


class PackedWeights(NamedTuple):
    """Arrays and settings.

    :param arrays: By name, such as ``decoder.own.weight``. ``tokens`` are the embeddings of both sides if they are the
        same, and ``head`` is the projection; its weights in float32 are ``exact``, or ``tokens`` if they are the same.
    """

    arrays: Arrays
    settings: PackedSettings

    def layers(self, stack: str, kernels: Any) -> Any:  # noqa: ANN401 - of numba
        """Return the layers of the encoder or the decoder, for kernels."""
        settings: StackSettings = getattr(self.settings, stack)
        linears = {name: self._linear(f"{stack}.{name}", kernels) for name in LINEARS}
        norms = {name: self.arrays[f"{stack}.{name}"] for name in NORMS}
        numbers = settings.heads, settings.activation, settings.norm_first, settings.eps
        return kernels.Layers(**linears, **norms, settings=numbers)

    def tables(self, stack: str, kernels: Any) -> Any:  # noqa: ANN401 - of numba
        """Return the embeddings of the encoder or the decoder, for kernels."""
        settings: StackSettings = getattr(self.settings, stack)
        tokens = self.arrays.get(f"{stack}.tokens", self.arrays.get("tokens"))
        return kernels.Tables(tokens, self.arrays[f"{stack}.positions"], settings.first_position, settings.scale)

    def head(self, kernels: Any) -> Any:  # noqa: ANN401 - of numba
        """Return the output projection, for kernels."""
        return self._linear("head", kernels)

    @property
    def exact(self) -> NDArray[np.float32]:
        """The weights of the output projection: (vocabulary, width)."""
        return self.arrays["exact"] if "exact" in self.arrays else self.arrays["tokens"]

    def _linear(self, name: str, kernels: Any) -> Any:  # noqa: ANN401 - of numba
        return kernels.PackedLinear(*(self.arrays[f"{name}.{part}"] for part in kernels.PackedLinear._fields))


def pack_model(
    hf: Any,  # noqa: ANN401 - one of five classes that share their names
    head: Projection,
    layout: Layout,
    activation: int,
    kernels: Any,  # noqa: ANN401 - a module that needs numba
    *,
    fingerprint: str,
    precision: str,
) -> PackedWeights:
    """Pack the weights of a model of transformers.

    :param activation: Number of the activation function in the kernels.
    :param kernels: :mod:`lacuna.kernels.compiled`.
    """
    of_layers, of_head = PRECISIONS[precision]
    stacks = dict(zip(_STACKS, (hf.model.encoder, hf.model.decoder), strict=True))
    arrays: Arrays = {}
    for name, stack in stacks.items():
        arrays |= {f"{name}.{part}": array for part, array in _pack_stack(stack, layout, of_layers, kernels)}
        arrays[f"{name}.positions"] = _numbers(position_table(stack))
    both, exact = [stack.embed_tokens.weight for stack in stacks.values()], head.weight
    if both[0].data_ptr() == both[1].data_ptr():
        arrays["tokens"] = _numbers(both[0])
    else:
        arrays |= {f"{name}.tokens": _numbers(weight) for name, weight in zip(_STACKS, both, strict=True)}
    if "tokens" not in arrays or exact.data_ptr() != both[0].data_ptr():
        arrays["exact"] = _numbers(exact)
    bias = None if head.bias is None else _numbers(head.bias).reshape(-1)
    packed = kernels.pack(_numbers(exact), bias, of_head)
    arrays |= {f"head.{part}": array for part, array in packed._asdict().items()}
    settings = PackedSettings(
        fingerprint=fingerprint,
        precision=precision,
        columns=kernels.COLUMNS,
        vocabulary=len(exact),
        encoder=_stack_settings(stacks["encoder"], layout, activation),
        decoder=_stack_settings(stacks["decoder"], layout, activation),
    )
    return PackedWeights(arrays, settings)


def _stack_settings(stack: Any, layout: Layout, activation: int) -> StackSettings:  # noqa: ANN401 - one of ten classes
    layer = stack.layers[0]
    scaling = stack if layout.scale_outside else stack.embed_tokens
    return StackSettings(
        heads=layer.self_attn.num_heads,
        activation=activation,
        norm_first=layout.norm_first,
        eps=layer.self_attn_layer_norm.eps,
        first_position=layout.first_position(stack),
        scale=float(scaling.embed_scale),
    )


def _pack_stack(stack: Any, layout: Layout, precision: str, kernels: Any) -> Iterator[tuple[str, NDArray[Any]]]:  # noqa: ANN401
    """Yield the weights of an encoder or a decoder, one row of each array for each layer."""
    layers = list(stack.layers)
    own = [layer.self_attn for layer in layers]
    cross = [layer.encoder_attn for layer in layers if hasattr(layer, "encoder_attn")]
    parts: dict[str, list[list[nn.Linear]]] = {
        "own": [[attention.q_proj, attention.k_proj, attention.v_proj] for attention in own],
        "own_out": [[attention.out_proj] for attention in own],
        "cross_query": [[attention.q_proj] for attention in cross],
        "cross_source": [[attention.k_proj, attention.v_proj] for attention in cross],
        "cross_out": [[attention.out_proj] for attention in cross],
        "widen": [[layer.fc1] for layer in layers],
        "narrow": [[layer.fc2] for layer in layers],
    }
    for name, linears in parts.items():
        packed = [
            kernels.pack(*(_numbers(part) for part in joined_weights(*joined)), precision)
            for joined in linears or parts["own_out"][:1]  # an encoder has no cross-attention: its arrays have no row
        ]
        for field in kernels.PackedLinear._fields:
            yield f"{name}.{field}", np.stack([getattr(each, field) for each in packed])[: len(linears)]
    names = ["self_attn_layer_norm", *(["encoder_attn_layer_norm"] if cross else []), "final_layer_norm"]
    yield "norms", np.stack([_norms([getattr(layer, name) for name in names]) for layer in layers])
    width = len(names), 2, len(layers[0].final_layer_norm.weight)
    yield "first_norm", _norms([stack.layernorm_embedding] if layout.norm_embedding else [], width[2])
    yield "last_norm", _norms([stack.layer_norm] if layout.norm_first else [], width[2])


def _norms(modules: Sequence[nn.LayerNorm], width: int = 0) -> NDArray[np.float32]:  # (norms, 2, width)
    each = [_numbers(torch.stack([module.weight, module.bias])) for module in modules]
    return np.stack(each) if each else np.empty((0, 2, width), np.float32)


def _numbers(weight: torch.Tensor) -> NDArray[np.float32]:
    return np.ascontiguousarray(weight.detach().numpy())


def cached_file(fingerprint: str, precision: str, columns: int) -> Path | None:
    """Return the file for the packed weights of a model; ``None`` if nothing is cached."""
    folder = cache_folder("weights")
    return None if folder is None else folder / _file_name(fingerprint, precision, columns)


def _file_name(fingerprint: str, precision: str, columns: int) -> str:
    return f"{fingerprint[:32]}-{precision}-{columns}.safetensors"


def save_packed(packed: PackedWeights, path: Path) -> None:
    """Write packed weights; what cannot be written is a warning, since only the next start is slower."""
    settings = packed.settings.model_copy(update={"hash": _hash(packed)})
    try:
        with atomic_path(path) as temporary:
            save_file(packed.arrays, temporary, metadata={"lacuna": settings.model_dump_json()})
    except (OSError, SafetensorError) as error:  # safetensors has its own error for a full disk
        text = f"{path}: packed weights cannot be cached ({error}); set LACUNA_CACHE to another folder"
        warnings.warn(text, LacunaWarning, stacklevel=2)


def open_packed(path: Path, fingerprint: str) -> PackedWeights | None:
    """Map packed weights into memory; return ``None`` if there are none, or they are damaged or of another model."""
    try:
        content = np.memmap(path, np.uint8, "c").view(np.ndarray)  # private: kernels have one type of array
        size = int(content[:8].view(np.uint64)[0])
        header = json.loads(content[8 : 8 + size].tobytes())
        settings = PackedSettings.model_validate_json(header.pop("__metadata__")["lacuna"])
        arrays = {name: _array(content[8 + size :], entry) for name, entry in header.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ValidationError):
        return None
    packed = PackedWeights(arrays, settings)
    named = path.name == _file_name(settings.fingerprint, settings.precision, settings.columns)
    # A damaged weight would give wrong translations without a word; hashing takes some ten milliseconds.
    valid = named and settings.fingerprint == fingerprint and settings.hash == _hash(packed)
    return packed if valid else None


_TYPES = {"F32": np.float32, "I16": np.int16, "I8": np.int8, "U16": np.uint16}


def _array(content: NDArray[np.uint8], entry: Mapping[str, Any]) -> NDArray[Any]:
    start, end = entry["data_offsets"]
    return content[start:end].view(_TYPES[entry["dtype"]]).reshape(entry["shape"])


def _hash(packed: PackedWeights) -> str:
    total = xxhash.xxh3_128(packed.settings.model_copy(update={"hash": ""}).model_dump_json().encode())
    for name, array in sorted(packed.arrays.items()):
        total.update(f"{name} {array.dtype} {array.shape}".encode())
        total.update(array.reshape(-1).view(np.uint8).data)
    return total.hexdigest()
