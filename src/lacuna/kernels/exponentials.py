"""The exponential function in float32, in a form that LLVM vectorizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from lacuna.kernels.compiling import compiled


@intrinsic
def _two_to_the(_: Any, exponent: Any) -> Any:  # noqa: ANN401
    """Return a power of two as float32, made from the bits of its exponent."""

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:  # noqa: ANN401
        integer = ir.IntType(32)
        bits = builder.shl(builder.add(arguments[0], ir.Constant(integer, 127)), ir.Constant(integer, 23))
        return builder.bitcast(bits, ir.FloatType())

    return types.float32(types.int32), generate


@compiled
def exp(x: np.float32) -> np.float32:
    """Return the exponential of a number that is at most 0, to the last digit but one; loops over it are vectorized."""
    x = max(x, np.float32(-87.0))
    n = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
    r = x - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
    p = np.float32(1.9875691500e-4)
    p = p * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    return np.float32((p * r * r + r + np.float32(1.0)) * _two_to_the(np.int32(n)))  # type: ignore[call-arg]
