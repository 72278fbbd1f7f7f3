"""Compile the kernels of a precision in a process of its own: ``python -m lacuna.models.kernel_compiling int8``.

In a process that compiles kernels, one kernel may call a function that was compiled for another, whose sums are in
another order: its last digits differ from those of a process that reads the kernels from the cache. So that all
processes give the same results, kernels are compiled elsewhere and always read.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.kernels import load_kernels
from lacuna.models.compiled_decoder import CompiledModel
from lacuna.models.packed_weights import LINEARS, NORMS, PRECISIONS, PackedSettings, PackedWeights, StackSettings

_WIDTH, _HEADS, _VOCABULARY = 32, 2, 40


def make_toy(precision: str, kernels: Any) -> PackedWeights:  # noqa: ANN401 - a module that needs numba
    """Return packed weights of a tiny model, all zero: kernels only differ by the types of their arguments."""
    of_layers, of_head = PRECISIONS[precision]
    arrays: dict[str, NDArray[Any]] = {}
    for stack in ("encoder", "decoder"):
        for name in LINEARS:
            outputs = _WIDTH * {"own": 3, "cross_source": 2}.get(name, 1)
            packed = kernels.pack(np.zeros((outputs, _WIDTH), np.float32), None, of_layers)
            arrays |= {f"{stack}.{name}.{part}": array[None] for part, array in packed._asdict().items()}
        for name in NORMS:
            shape = (1, 3, 2, _WIDTH) if name == "norms" else (1, 2, _WIDTH)
            arrays[f"{stack}.{name}"] = np.zeros(shape, np.float32)
        arrays[f"{stack}.positions"] = np.zeros((4, _WIDTH), np.float32)
    arrays["tokens"] = np.zeros((_VOCABULARY, _WIDTH), np.float32)
    head = kernels.pack(arrays["tokens"], None, of_head)
    arrays |= {f"head.{part}": array for part, array in head._asdict().items()}
    numbers = StackSettings(heads=_HEADS, activation=0, norm_first=False, eps=1e-5, first_position=0, scale=1.0)
    settings = PackedSettings(
        fingerprint="",
        precision=precision,
        columns=kernels.COLUMNS,
        vocabulary=_VOCABULARY,
        encoder=numbers,
        decoder=numbers,
    )
    return PackedWeights(arrays, settings)


def compile_kernels(precision: str) -> None:
    """Compile and cache all kernels of a precision, in this process."""
    kernels = load_kernels()
    if kernels is not None:
        CompiledModel(make_toy(precision, kernels), kernels).run_once([0])


def compile_elsewhere(precision: str) -> None:
    """Compile and cache all kernels of a precision in another process; if that fails, they are compiled when needed."""
    subprocess.run([sys.executable, "-m", __name__, precision], check=False, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    compile_kernels(sys.argv[1])
