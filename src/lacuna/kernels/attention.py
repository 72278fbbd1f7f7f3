# ruff: noqa: ANN401 - numba and llvmlite have no types
"""Attention of one query for one CPU thread: products with keys, softmax, and the weighted sum of values.

The vectors of a head are short: a compiler's loop over one of them would be mostly overhead. Where a head fills some
whole registers, its code is generated so that they stay there. Knows arrays only.
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
from lacuna.kernels.products import Floats
from lacuna.kernels.tiles import LANES

_SIZE, _LANE, _FLOAT = ir.IntType(64), ir.IntType(32), ir.FloatType()
_VECTOR = ir.VectorType(_FLOAT, LANES)
_FUSED = ["contract"]


def _make_products(registers: int) -> Any:
    """Return a function that multiplies a query with the keys at some places.

    :param registers: That a head fills; 0 for any size.
    """

    @intrinsic
    def products(_: Any, query: Any, keys: Any, stride: Any, size: Any, places: Any, count: Any, out: Any) -> Any:
        def generate(context: Any, b: Any, _: Any, arguments: Any) -> Any:
            query, keys, stride, size, places, count, out = arguments
            own = [b.load(_register(b, query, number), align=4) for number in range(registers)]
            with cgutils.for_range(b, count, intp=_SIZE) as loop:
                key = _row(b, keys, stride, places, loop.index)
                if registers:
                    total = b.fmul(own[0], b.load(_register(b, key, 0), align=4))
                    for number in range(1, registers):
                        total = _fuse(b, own[number], b.load(_register(b, key, number), align=4), total)
                    product = _sum(b, total)
                else:
                    some = cgutils.alloca_once_value(b, ir.Constant(_FLOAT, 0.0))  # type: ignore[no-untyped-call]
                    b.store(ir.Constant(_FLOAT, 0.0), some)
                    with cgutils.for_range(b, size, intp=_SIZE) as inner:
                        numbers = [b.load(_number(b, each, inner.index), align=4) for each in (query, key)]
                        b.store(_fuse(b, numbers[0], numbers[1], b.load(some)), some)
                    product = b.load(some)
                b.store(product, _number(b, out, loop.index), align=4)
            return context.get_dummy_value()

        address, count_type = types.uintp, types.intp
        return types.void(address, address, count_type, count_type, address, count_type, address), generate

    return products


def _make_weighing(registers: int) -> Any:
    """Return a function that writes the sum of the values at some places, by their weights and divided by ``total``.

    :param registers: That a head fills; 0 for any size.
    """

    @intrinsic
    def weigh(
        _: Any, weights: Any, total: Any, values: Any, stride: Any, size: Any, places: Any, count: Any, out: Any
    ) -> Any:
        def generate(context: Any, b: Any, _: Any, arguments: Any) -> Any:
            weights, total, values, stride, size, places, count, out = arguments
            share = b.fdiv(ir.Constant(_FLOAT, 1.0), total)
            if registers:
                zero = ir.Constant(_VECTOR, [0.0] * LANES)
                sums = [cgutils.alloca_once_value(b, zero) for _ in range(registers)]  # type: ignore[no-untyped-call]
                for each in sums:
                    b.store(zero, each)
                with cgutils.for_range(b, count, intp=_SIZE) as loop:
                    value = _row(b, values, stride, places, loop.index)
                    weight = repeat(b, b.load(_number(b, weights, loop.index), align=4))
                    for number, each in enumerate(sums):
                        b.store(_fuse(b, weight, b.load(_register(b, value, number), align=4), b.load(each)), each)
                for number, each in enumerate(sums):
                    b.store(b.fmul(b.load(each), repeat(b, share)), _register(b, out, number), align=4)
            else:
                some = cgutils.alloca_once_value(b, ir.Constant(_FLOAT, 0.0))  # type: ignore[no-untyped-call]
                with cgutils.for_range(b, size, intp=_SIZE) as column:
                    b.store(ir.Constant(_FLOAT, 0.0), some)
                    with cgutils.for_range(b, count, intp=_SIZE) as loop:
                        value = _number(b, _row(b, values, stride, places, loop.index), column.index)
                        weight = b.load(_number(b, weights, loop.index), align=4)
                        b.store(_fuse(b, weight, b.load(value, align=4), b.load(some)), some)
                    b.store(b.fmul(b.load(some), share), _number(b, out, column.index), align=4)
            return context.get_dummy_value()

        address, count_type = types.uintp, types.intp
        kinds = (address, types.float32, address, count_type, count_type, address, count_type, address)
        return types.void(*kinds), generate

    return weigh


def _fuse(b: Any, factor: Any, other: Any, added: Any) -> Any:
    return b.fadd(b.fmul(factor, other, flags=_FUSED), added, flags=_FUSED)


def _number(b: Any, address: Any, index: Any) -> Any:
    """Return the pointer to a float of an array."""
    return b.gep(b.inttoptr(address, _FLOAT.as_pointer()), [index])


def _row(b: Any, rows: Any, stride: Any, places: Any, index: Any) -> Any:
    """Return the address of a key or value; the stride of rows is in bytes."""
    place = b.load(b.gep(b.inttoptr(places, _SIZE.as_pointer()), [index]), align=8)
    return b.add(rows, b.mul(place, stride))


def _register(b: Any, address: Any, number: int) -> Any:
    return b.inttoptr(b.add(address, ir.Constant(_SIZE, 4 * LANES * number)), _VECTOR.as_pointer())


def repeat(b: Any, value: Any) -> Any:
    """Return a register with the same float in all lanes."""
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    first = b.insert_element(undefined, value, ir.Constant(_LANE, 0))
    return b.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_LANE, LANES), [0] * LANES))


def _sum(b: Any, vector: Any) -> Any:
    """Add up the lanes of a register: its halves, then theirs."""
    lanes = LANES
    while lanes > 1:
        lanes //= 2
        order = ir.Constant(ir.VectorType(_LANE, lanes), list(range(lanes)))
        other = ir.Constant(ir.VectorType(_LANE, lanes), list(range(lanes, 2 * lanes)))
        vector = b.fadd(b.shuffle_vector(vector, vector, order), b.shuffle_vector(vector, vector, other))
    return b.extract_element(vector, ir.Constant(_LANE, 0))


@intrinsic
def _exponentials(_: Any, numbers: Any, count: Any, registers: Any, scale: Any) -> Any:
    """Replace numbers by the exponentials of ``scale`` times their differences from the largest; return their sum.

    Generated, because a compiler's loop would be scalar for the few tokens of a sentence.

    :param registers: That the numbers fill, with others after them.
    """

    def generate(context: Any, b: Any, _: Any, arguments: Any) -> Any:
        numbers, count, registers, scale = arguments
        with cgutils.for_range_slice(
            b, count, b.mul(registers, ir.Constant(_SIZE, LANES)), ir.Constant(_SIZE, 1), _SIZE
        ) as (index, _):
            b.store(ir.Constant(_FLOAT, -1e30), _number(b, numbers, index), align=4)
        starts = ir.Constant(_VECTOR, [-1e30] * LANES), ir.Constant(_VECTOR, [0.0] * LANES)
        largest, total = (cgutils.alloca_once_value(b, start) for start in starts)  # type: ignore[no-untyped-call]
        for start, each in zip(starts, (largest, total), strict=True):
            b.store(start, each)  # also if this is inside of a loop

        def place(index: Any) -> Any:
            return b.inttoptr(b.add(numbers, b.mul(index, ir.Constant(_SIZE, 4 * LANES))), _VECTOR.as_pointer())

        with cgutils.for_range(b, registers, intp=_SIZE) as loop:
            b.store(pick_larger(b, b.load(place(loop.index), align=4), b.load(largest)), largest)
        peak = repeat(b, find_largest(b, b.load(largest)))
        factor = repeat(b, scale)
        with cgutils.for_range(b, registers, intp=_SIZE) as loop:
            made = _exp_register(b, b.fmul(b.fsub(b.load(place(loop.index), align=4), peak), factor))
            b.store(made, place(loop.index), align=4)
            b.store(b.fadd(b.load(total), made), total)
        return _sum(b, b.load(total))

    return types.float32(types.uintp, types.intp, types.intp, types.float32), generate


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


def _exp_register(b: Any, x: Any) -> Any:
    """Return the exponentials of the numbers in a register; see :func:`exp`."""

    def constant(number: float) -> Any:
        return ir.Constant(_VECTOR, [float(np.float32(number))] * LANES)

    floor = cgutils.get_or_insert_function(b.module, ir.FunctionType(_VECTOR, [_VECTOR]), f"llvm.floor.v{LANES}f32")  # type: ignore[no-untyped-call]
    x = pick_larger(b, x, constant(-87.0))
    n = b.call(floor, [_fuse(b, x, constant(_LOG2_E), constant(0.5))])
    r = _fuse(b, n, constant(-_LN2_REST), _fuse(b, n, constant(-_LN2), x))
    p = constant(_COEFFICIENTS[0])
    for coefficient in _COEFFICIENTS[1:]:
        p = _fuse(b, p, r, constant(coefficient))
    p = b.fadd(_fuse(b, b.fmul(p, r), r, r), constant(1.0))
    integers = ir.VectorType(_LANE, LANES)
    exponents = b.add(b.fptosi(n, integers), ir.Constant(integers, [127] * LANES))
    return b.fmul(p, b.bitcast(b.shl(exponents, ir.Constant(integers, [23] * LANES)), _VECTOR))


_products, _products_2, _products_4, _products_8 = map(_make_products, (0, 2, 4, 8))
_weigh, _weigh_2, _weigh_4, _weigh_8 = map(_make_weighing, (0, 2, 4, 8))


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


@compiled
def weight_buffer(count: int) -> Floats:
    """Return a buffer for the attention to so many tokens."""
    return np.empty(-(-count // LANES) * LANES, np.float32)


@compiled
def attend(
    query: np.uint64,
    keys: np.uint64,
    values: np.uint64,
    heads: int,
    size: int,
    places: np.uint64,
    count: int,
    weights: np.uint64,
    out: np.uint64,
) -> None:
    """Run the attention of one query. Arrays are addresses: counting references to them would take longer.

    :param query: (heads, size), as ``out``.
    :param keys: (tokens, heads, size), as ``values``.
    :param places: The tokens to attend to: (count,).
    :param weights: See :func:`weight_buffer`.
    """
    scale, registers, stride = np.float32(1.0) / np.sqrt(np.float32(size)), -(-count // LANES), 4 * heads * size
    for head in range(heads):
        offset = np.uint64(4 * head * size)
        own, key, value, made = query + offset, keys + offset, values + offset, out + offset
        if size == 2 * LANES:
            _products_2(own, key, stride, size, places, count, weights)
        elif size == 4 * LANES:
            _products_4(own, key, stride, size, places, count, weights)
        elif size == 8 * LANES:
            _products_8(own, key, stride, size, places, count, weights)
        else:
            _products(own, key, stride, size, places, count, weights)
        total: np.float32 = _exponentials(weights, count, registers, scale)  # type: ignore[call-arg]
        if size == 2 * LANES:
            _weigh_2(weights, total, value, stride, size, places, count, made)
        elif size == 4 * LANES:
            _weigh_4(weights, total, value, stride, size, places, count, made)
        elif size == 8 * LANES:
            _weigh_8(weights, total, value, stride, size, places, count, made)
        else:
            _weigh(weights, total, value, stride, size, places, count, made)


@compiled
def address(array: NDArray[Any]) -> np.uint64:
    """Return the address of an array."""
    return np.uint64(array.ctypes.data)
