# ruff: noqa: ANN401 - numba and llvmlite have no types
"""Attention for one CPU thread, in float32: of one query to chosen tokens, or of all tokens of a sentence at once.

The vectors of a head are short: a compiler's loop over one of them would be mostly overhead. For one query, where a
head fills some whole registers, code is generated that keeps it there. For a sentence, attention is matrix products.
Knows arrays only: nothing of layers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from lacuna.kernels.compiling import compiled
from lacuna.kernels.products import Floats, make_codes, multiply
from lacuna.kernels.registers import (
    VECTOR,
    address,
    exp_register,
    find_largest,
    fuse,
    number_at,
    pick_larger,
    register_at,
    repeat,
    sum_lanes,
)
from lacuna.kernels.tiles import COLUMNS, LANES

_SIZE, _FLOAT = ir.IntType(64), ir.FloatType()


def _make_products(registers: int) -> Any:
    """Return a function that multiplies a query with the keys at some places.

    :param registers: That a head fills; 0 for any size.
    """

    @intrinsic
    def products(_: Any, query: Any, keys: Any, stride: Any, size: Any, places: Any, count: Any, out: Any) -> Any:
        def generate(context: Any, b: Any, _: Any, arguments: Any) -> Any:
            query, keys, stride, size, places, count, out = arguments
            own = [b.load(register_at(b, query, number), align=4) for number in range(registers)]
            with cgutils.for_range(b, count, intp=_SIZE) as loop:
                key = _row(b, keys, stride, places, loop.index)
                if registers:
                    total = b.fmul(own[0], b.load(register_at(b, key, 0), align=4))
                    for number in range(1, registers):
                        total = fuse(b, own[number], b.load(register_at(b, key, number), align=4), total)
                    product = sum_lanes(b, total)
                else:
                    some = cgutils.alloca_once_value(b, ir.Constant(_FLOAT, 0.0))  # type: ignore[no-untyped-call]
                    b.store(ir.Constant(_FLOAT, 0.0), some)
                    with cgutils.for_range(b, size, intp=_SIZE) as inner:
                        numbers = [b.load(number_at(b, each, inner.index), align=4) for each in (query, key)]
                        b.store(fuse(b, numbers[0], numbers[1], b.load(some)), some)
                    product = b.load(some)
                b.store(product, number_at(b, out, loop.index), align=4)
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
                zero = ir.Constant(VECTOR, [0.0] * LANES)
                sums = [cgutils.alloca_once_value(b, zero) for _ in range(registers)]  # type: ignore[no-untyped-call]
                for each in sums:
                    b.store(zero, each)
                with cgutils.for_range(b, count, intp=_SIZE) as loop:
                    value = _row(b, values, stride, places, loop.index)
                    weight = repeat(b, b.load(number_at(b, weights, loop.index), align=4))
                    for number, each in enumerate(sums):
                        b.store(fuse(b, weight, b.load(register_at(b, value, number), align=4), b.load(each)), each)
                for number, each in enumerate(sums):
                    b.store(b.fmul(b.load(each), repeat(b, share)), register_at(b, out, number), align=4)
            else:
                some = cgutils.alloca_once_value(b, ir.Constant(_FLOAT, 0.0))  # type: ignore[no-untyped-call]
                with cgutils.for_range(b, size, intp=_SIZE) as column:
                    b.store(ir.Constant(_FLOAT, 0.0), some)
                    with cgutils.for_range(b, count, intp=_SIZE) as loop:
                        value = number_at(b, _row(b, values, stride, places, loop.index), column.index)
                        weight = b.load(number_at(b, weights, loop.index), align=4)
                        b.store(fuse(b, weight, b.load(value, align=4), b.load(some)), some)
                    b.store(b.fmul(b.load(some), share), number_at(b, out, column.index), align=4)
            return context.get_dummy_value()

        address, count_type = types.uintp, types.intp
        kinds = (address, types.float32, address, count_type, count_type, address, count_type, address)
        return types.void(*kinds), generate

    return weigh


def _row(b: Any, rows: Any, stride: Any, places: Any, index: Any) -> Any:
    """Return the address of a key or value; the stride of rows is in bytes."""
    place = b.load(b.gep(b.inttoptr(places, _SIZE.as_pointer()), [index]), align=8)
    return b.add(rows, b.mul(place, stride))


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
            b.store(ir.Constant(_FLOAT, -1e30), number_at(b, numbers, index), align=4)
        starts = ir.Constant(VECTOR, [-1e30] * LANES), ir.Constant(VECTOR, [0.0] * LANES)
        largest, total = (cgutils.alloca_once_value(b, start) for start in starts)  # type: ignore[no-untyped-call]
        for start, each in zip(starts, (largest, total), strict=True):
            b.store(start, each)  # also if this is inside of a loop

        def place(index: Any) -> Any:
            return b.inttoptr(b.add(numbers, b.mul(index, ir.Constant(_SIZE, 4 * LANES))), VECTOR.as_pointer())

        with cgutils.for_range(b, registers, intp=_SIZE) as loop:
            b.store(pick_larger(b, b.load(place(loop.index), align=4), b.load(largest)), largest)
        peak = repeat(b, find_largest(b, b.load(largest)))
        factor = repeat(b, scale)
        with cgutils.for_range(b, registers, intp=_SIZE) as loop:
            made = exp_register(b, b.fmul(b.fsub(b.load(place(loop.index), align=4), peak), factor))
            b.store(made, place(loop.index), align=4)
            b.store(b.fadd(b.load(total), made), total)
        return sum_lanes(b, b.load(total))

    return types.float32(types.uintp, types.intp, types.intp, types.float32), generate


_products, _products_2, _products_4, _products_8 = map(_make_products, (0, 2, 4, 8))
_weigh, _weigh_2, _weigh_4, _weigh_8 = map(_make_weighing, (0, 2, 4, 8))


@compiled
def weight_buffer(count: int) -> Floats:
    """Return a buffer for the attention to a number of tokens."""
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
def attend_all(queries: Floats, keys: Floats, values: Floats, heads: int, causal: bool, out: Floats) -> None:
    """Run the attention of all tokens of a sentence, as two products for each head.

    :param queries: (rows, width), as ``out``, which may be the same array.
    :param keys: (tokens, width), as ``values``.
    :param causal: Let each row attend to the tokens up to its own only.
    """
    rows, tokens, size = len(queries), len(keys), queries.shape[1] // heads
    scale = np.float32(1.0) / np.sqrt(np.float32(size))
    key_blocks, value_blocks = -(-tokens // COLUMNS), -(-size // COLUMNS)
    packed_keys = np.zeros((key_blocks, size, COLUMNS), np.float32)
    packed_values = np.zeros((value_blocks, tokens, COLUMNS), np.float32)
    weights = np.empty((rows, key_blocks * COLUMNS), np.float32)
    made = np.empty((rows, value_blocks * COLUMNS), np.float32)
    units = np.empty(0, np.float32)
    codes, code_units = make_codes(0, 0)  # float32 products round nothing
    for head in range(heads):
        first = head * size
        _pack_head(keys, values, first, packed_keys, packed_values)
        _clear(weights)
        _clear(made)
        multiply(queries[:, first : first + size], packed_keys, units, weights, codes, code_units)
        for row in range(rows):
            count, line = row + 1 if causal else tokens, address(weights) + np.uint64(row * weights.strides[0])
            total: np.float32 = _exponentials(line, count, -(-count // LANES), scale)  # type: ignore[call-arg]
            share = np.float32(1.0) / total
            for token in range(tokens):
                weights[row, token] = weights[row, token] * share if token < count else np.float32(0.0)
        multiply(weights[:, :tokens], packed_values, units, made, codes, code_units)
        for row in range(rows):
            for column in range(size):
                out[row, first + column] = made[row, column]


@compiled
def _pack_head(keys: Floats, values: Floats, first: int, packed_keys: Floats, packed_values: Floats) -> None:
    """Write keys and values of one head in the order in which tiles read weights; ``first`` is its first column."""
    for token in range(len(keys)):
        block, place = token // COLUMNS, token % COLUMNS
        for column in range(packed_keys.shape[1]):
            packed_keys[block, column, place] = keys[token, first + column]
            packed_values[column // COLUMNS, token, column % COLUMNS] = values[token, first + column]


@compiled
def _clear(x: Floats) -> None:
    for row in range(len(x)):
        for column in range(x.shape[1]):
            x[row, column] = np.float32(0.0)
