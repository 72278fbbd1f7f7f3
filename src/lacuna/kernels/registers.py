# ruff: noqa: ANN401 - numba and llvmlite have no types
"""Pieces of generated code for registers full of floats, the exponential function, and addresses of arrays.

Functions whose first parameter is ``b`` take a builder of llvmlite and add instructions to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from lacuna.kernels.compiling import compiled
from lacuna.kernels.tiles import LANES

_SIZE, _LANE, _FLOAT = ir.IntType(64), ir.IntType(32), ir.FloatType()
VECTOR = ir.VectorType(_FLOAT, LANES)
_FUSED = ["contract"]


def fuse(b: Any, factor: Any, other: Any, added: Any) -> Any:
    """Multiply and add in one instruction."""
    return b.fadd(b.fmul(factor, other, flags=_FUSED), added, flags=_FUSED)


def number_at(b: Any, address: Any, index: Any) -> Any:
    """Return the pointer to a float of an array."""
    return b.gep(b.inttoptr(address, _FLOAT.as_pointer()), [index])


def register_at(b: Any, address: Any, number: int) -> Any:
    """Return the pointer to a register of an array."""
    return b.inttoptr(b.add(address, ir.Constant(_SIZE, 4 * LANES * number)), VECTOR.as_pointer())


def repeat(b: Any, value: Any) -> Any:
    """Return a register with the same float in all lanes."""
    undefined = ir.Constant(VECTOR, ir.Undefined)
    first = b.insert_element(undefined, value, ir.Constant(_LANE, 0))
    return b.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_LANE, LANES), [0] * LANES))


def sum_lanes(b: Any, vector: Any) -> Any:
    """Add up the lanes of a register: its halves, then theirs."""
    lanes = LANES
    while lanes > 1:
        lanes //= 2
        order = ir.Constant(ir.VectorType(_LANE, lanes), list(range(lanes)))
        other = ir.Constant(ir.VectorType(_LANE, lanes), list(range(lanes, 2 * lanes)))
        vector = b.fadd(b.shuffle_vector(vector, vector, order), b.shuffle_vector(vector, vector, other))
    return b.extract_element(vector, ir.Constant(_LANE, 0))


def pick_larger(b: Any, first: Any, second: Any) -> Any:
    """Return the larger number of each lane of two registers."""
    return b.select(b.fcmp_ordered(">", first, second), first, second)


def find_largest(b: Any, vector: Any) -> Any:
    """Return the largest number of a register: of its halves, then of theirs."""
    lanes = LANES
    while lanes > 1:
        lanes //= 2
        halves = (ir.Constant(ir.VectorType(_LANE, lanes), list(range(start, start + lanes))) for start in (0, lanes))
        vector = pick_larger(b, *(b.shuffle_vector(vector, vector, half) for half in halves))
    return b.extract_element(vector, ir.Constant(_LANE, 0))


# The exponential by powers of two and a polynomial, after Cephes: log2(e), ln(2) in two parts, and the coefficients.
_LOG2_E, _LN2, _LN2_REST = 1.44269504, 0.693359375, -2.12194440e-4
_COEFFICIENTS = 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1


def exp_register(b: Any, x: Any) -> Any:
    """Return the exponentials of the numbers in a register; see :func:`exp`."""

    def constant(number: float) -> Any:
        return ir.Constant(VECTOR, [float(np.float32(number))] * LANES)

    floor = cgutils.get_or_insert_function(b.module, ir.FunctionType(VECTOR, [VECTOR]), f"llvm.floor.v{LANES}f32")  # type: ignore[no-untyped-call]
    x = pick_larger(b, x, constant(-87.0))
    n = b.call(floor, [fuse(b, x, constant(_LOG2_E), constant(0.5))])
    r = fuse(b, n, constant(-_LN2_REST), fuse(b, n, constant(-_LN2), x))
    p = constant(_COEFFICIENTS[0])
    for coefficient in _COEFFICIENTS[1:]:
        p = fuse(b, p, r, constant(coefficient))
    p = b.fadd(fuse(b, b.fmul(p, r), r, r), constant(1.0))
    integers = ir.VectorType(_LANE, LANES)
    exponents = b.add(b.fptosi(n, integers), ir.Constant(integers, [127] * LANES))
    return b.fmul(p, b.bitcast(b.shl(exponents, ir.Constant(integers, [23] * LANES)), VECTOR))


@intrinsic
def _two_to_the(_: Any, exponent: Any) -> Any:
    """Return a power of two as float32, made from the bits of its exponent."""

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        integer = ir.IntType(32)
        bits = builder.shl(builder.add(arguments[0], ir.Constant(integer, 127)), ir.Constant(integer, 23))
        return builder.bitcast(bits, ir.FloatType())

    return types.float32(types.int32), generate


@compiled
def exp(x: np.float32) -> np.float32:
    """Return the exponential of a number that is at most 0, to the last digit but one; loops over it are vectorized."""
    x = max(x, np.float32(-87.0))
    n = np.floor(x * np.float32(_LOG2_E) + np.float32(0.5))
    r = x - n * np.float32(_LN2) - n * np.float32(_LN2_REST)
    p = np.float32(_COEFFICIENTS[0])
    for coefficient in _COEFFICIENTS[1:]:
        p = p * r + np.float32(coefficient)
    return np.float32((p * r * r + r + np.float32(1.0)) * _two_to_the(np.int32(n)))  # type: ignore[call-arg]


@intrinsic
def load_float(_: Any, line: Any, place: Any) -> Any:
    """Return a number of an array, by its address."""

    def generate(context: Any, b: Any, _: Any, arguments: Any) -> Any:
        pointer = b.inttoptr(arguments[0], ir.FloatType().as_pointer())
        return b.load(b.gep(pointer, [arguments[1]]), align=4)

    return types.float32(types.uintp, types.intp), generate


@compiled
def address(array: NDArray[Any]) -> np.uint64:
    """Return the address of an array, which must be used after its address is: numba frees it after its last use."""
    return np.uint64(array.ctypes.data)
