# ruff: noqa: ANN401 - types of numba
"""Products of rows with packed weights, for one CPU thread: float32, bfloat16, or integers.

Integer products round each row of inputs to 12 bits and each output's weights to 12 or 8 bits, by a *unit* of its own.
They are computed in parts of :data:`PART` inputs, whose sums cannot overflow 32 bits: the only errors are those of the
rounding. Knows arrays only: nothing of models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from lacuna.kernels.compiling import SAFE_MATH, compiled
from lacuna.kernels.tiles import COLUMNS, HAS_BFLOAT16, MAX_ROWS, make_tiles

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]
Codes = NDArray[np.int16]

MAX_INPUT = 2047  # of the integers that inputs are rounded to
MAX_WEIGHT = {"int16": 2047, "int8": 127}
PART = 512  # MAX_INPUT * MAX_WEIGHT * PART < 2**31

# Numbers of inputs that are multiplied with a block of weights while both are in the cache.
_CACHED = 1 << 16


class PackedLinear(NamedTuple):
    """A linear layer, or one linear layer of each layer of a Transformer.

    :param weight: Blocks of outputs in the order in which a tile reads them, ([layers,] blocks, inputs, COLUMNS). The
        last block is filled up with zeros. The type is float32, int16, int8, or uint16 for the bits of bfloat16.
    :param units: Of integer weights: ([layers,] blocks * COLUMNS); for floats, no column.
    :param bias: ([layers,] blocks * COLUMNS).
    """

    weight: NDArray[Any]
    units: Floats
    bias: Floats


def pack(weight: Floats, bias: Floats | None, precision: str = "float32") -> PackedLinear:
    """Pack the weights of a linear layer: (outputs, inputs) and (outputs,).

    :param precision: ``float32``, ``bfloat16``, ``int16`` or ``int8``; the last three need an even number of inputs.
    """
    outputs, inputs = weight.shape
    blocks = -(-outputs // COLUMNS)
    filled = np.zeros((blocks * COLUMNS, inputs), np.float32)
    filled[:outputs] = weight
    units = np.zeros(0, np.float32)
    wide = np.zeros(blocks * COLUMNS, np.float32)
    if bias is not None:
        wide[:outputs] = bias
    if precision == "float32":
        packed = np.ascontiguousarray(filled.reshape(blocks, COLUMNS, inputs).transpose(0, 2, 1))
        return PackedLinear(packed, units, wide)
    codes: NDArray[Any] = bfloat16_bits(filled)
    if precision in MAX_WEIGHT:
        units = np.maximum(np.abs(filled).max(1) / np.float32(MAX_WEIGHT[precision]), np.finfo(np.float32).tiny)
        codes = np.rint(filled / units[:, None]).astype(precision)
    pairs = codes.reshape(blocks, COLUMNS, inputs // 2, 2).transpose(0, 2, 1, 3)
    return PackedLinear(np.ascontiguousarray(pairs).reshape(blocks, inputs, COLUMNS), units, wide)


def bfloat16_bits(x: Floats) -> NDArray[np.uint16]:
    """Return the bits of the nearest bfloat16, of two equally near ones the even one."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


def _make_runner(kind: str) -> Callable[..., None]:
    """Return a function that runs the tile for a number of rows."""
    tile_1, tile_2, tile_3, tile_4, tile_5, tile_6, tile_7, tile_8 = make_tiles(kind)

    @numba.njit(nogil=True, fastmath=SAFE_MATH, error_model="numpy")
    def run(
        rows: int,
        inputs: np.uint64,
        stride: int,
        weight: np.uint64,
        groups: int,
        row_units: np.uint64,
        output_units: np.uint64,
        output: np.uint64,
        out: int,
    ) -> None:
        if rows == 8:
            tile_8(inputs, stride, weight, groups, row_units, output_units, output, out)
        elif rows == 7:
            tile_7(inputs, stride, weight, groups, row_units, output_units, output, out)
        elif rows == 6:
            tile_6(inputs, stride, weight, groups, row_units, output_units, output, out)
        elif rows == 5:
            tile_5(inputs, stride, weight, groups, row_units, output_units, output, out)
        elif rows == 4:
            tile_4(inputs, stride, weight, groups, row_units, output_units, output, out)
        elif rows == 3:
            tile_3(inputs, stride, weight, groups, row_units, output_units, output, out)
        elif rows == 2:
            tile_2(inputs, stride, weight, groups, row_units, output_units, output, out)
        else:
            tile_1(inputs, stride, weight, groups, row_units, output_units, output, out)

    made: Callable[..., None] = run
    return made


_run_float32 = _make_runner("float32")


@compiled
def _largest(x: Floats) -> np.float32:
    """Return the largest absolute value: that with the largest bits, whose loop is vectorized."""
    bits, largest = x.view(np.int32), np.int32(0)
    for place in range(len(bits)):
        largest = max(largest, bits[place] & np.int32(0x7FFFFFFF))
    return _as_float(largest)  # type: ignore[call-arg]


@intrinsic
def _as_float(_: Any, bits: Any) -> Any:
    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), generate


@intrinsic
def _nearest(_: Any, number: Any) -> Any:
    """Return the integer nearest to a small number; of two equally near ones, the even one.

    Adding 1.5 * 2**23 leaves no bits for a fraction, and the lowest bits of the sum are those of the integer. Loops
    over it are vectorized, those over ``np.rint`` are not.
    """

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        total = builder.fadd(arguments[0], ir.Constant(ir.FloatType(), 1.5 * 2**23))
        return builder.trunc(builder.bitcast(total, ir.IntType(32)), ir.IntType(16))

    return types.int16(types.float32), generate


@compiled
def make_codes(rows: int, width: int) -> tuple[Codes, Floats]:
    """Allocate the buffers that :func:`multiply` rounds its inputs into.

    :param width: Largest number of inputs.
    """
    return np.empty((rows, width), np.int16), np.empty(rows, np.float32)


def round_inputs(x: Floats, weight: NDArray[Any], codes: Codes, code_units: Floats) -> None:
    """Round rows for products with these weights; does nothing for float32. Called by kernels only.

    :param x: (rows, inputs or more).
    :param codes: See :func:`make_codes`.
    """
    raise NotImplementedError("compiled for the type of the weights")


def multiply(x: Floats, weight: NDArray[Any], units: Floats, out: Floats, codes: Codes, code_units: Floats) -> None:
    """Add the products of rows with blocks of weights to the columns of these blocks. Called by kernels only.

    :param x: (rows, inputs or more).
    :param weight: As in :class:`PackedLinear`, of one layer: (blocks, inputs, COLUMNS).
    :param units: Of the outputs of these blocks.
    :param codes: The rows after :func:`round_inputs`.
    """
    raise NotImplementedError("compiled for the type of the weights")


_OPTIONS: Any = {"nogil": True, "fastmath": SAFE_MATH, "error_model": "numpy"}


@overload(round_inputs, jit_options=_OPTIONS)
def _choose_rounding(x: Any, weight: Any, codes: Any, code_units: Any) -> Callable[..., None]:
    chosen = {types.float32: _keep, types.uint16: _round_to_bfloat16}
    return chosen.get(weight.dtype, _round_to_integers)


def _keep(x: Any, weight: Any, codes: Any, code_units: Any) -> None:
    pass


def _round_to_integers(x: Any, weight: Any, codes: Any, code_units: Any) -> None:
    """Round each row to 12 bits."""
    for row in range(len(x)):
        line, code = x[row, : weight.shape[1]], codes[row]
        unit = max(_largest(line), np.float32(1e-30)) / np.float32(MAX_INPUT)
        code_units[row] = unit
        factor = np.float32(1.0) / unit
        for column in range(len(line)):
            code[column] = _nearest(line[column] * factor)  # type: ignore[call-arg]


def _round_to_bfloat16(x: Any, weight: Any, codes: Any, code_units: Any) -> None:
    """Write the bits of the nearest bfloat16 of each number."""
    half, one, down = np.uint32(0x7FFF), np.uint32(1), np.uint32(16)
    for row in range(len(x)):
        bits, code = x[row, : weight.shape[1]].view(np.uint32), codes[row].view(np.uint16)
        for column in range(len(bits)):
            wide = bits[column]
            code[column] = np.uint16((wide + half + ((wide >> down) & one)) >> down)


@overload(multiply, jit_options=_OPTIONS)
def _choose_product(x: Any, weight: Any, units: Any, out: Any, codes: Any, code_units: Any) -> Callable[..., None]:
    return {
        types.float32: _multiply_float32,
        types.uint16: _multiply_bfloat16,
        types.int16: _multiply_int16,
        types.int8: _multiply_int8,
    }[weight.dtype]


def _multiply_float32(x: Any, weight: Any, units: Any, out: Any, codes: Any, code_units: Any) -> None:
    rows, blocks, width = len(x), weight.shape[0], weight.shape[1]
    stride, out_stride = x.strides[0] // 4, out.strides[0] // 4
    panel = max(MAX_ROWS, _CACHED // width // MAX_ROWS * MAX_ROWS)
    nothing = np.uint64(0)
    for start in range(0, rows, panel):
        stop = min(rows, start + panel)
        for block in range(blocks):
            weights = np.uint64(weight.ctypes.data) + np.uint64(block * width * COLUMNS * 4)
            for row in range(start, stop, MAX_ROWS):
                inputs = np.uint64(x.ctypes.data) + np.uint64(row * stride * 4)
                place = (row * out_stride + block * COLUMNS) * 4
                output = np.uint64(out.ctypes.data) + np.uint64(place)
                count = min(MAX_ROWS, stop - row)
                _run_float32(count, inputs, stride, weights, width, nothing, nothing, output, out_stride)


def _make_pairs_product(kind: str, size: int, part: int) -> Callable[..., None]:
    """Return a function that multiplies rounded rows.

    :param size: Bytes of a weight.
    :param part: Number of inputs whose sum is taken at once.
    """
    run = _make_runner(kind)

    @numba.njit(nogil=True, fastmath=SAFE_MATH, error_model="numpy")
    def multiply_pairs(rows: int, weight: Any, units: Floats, out: Floats, codes: Codes, code_units: Floats) -> None:
        blocks, width = weight.shape[0], weight.shape[1]
        stride, out_stride = codes.strides[0] // 4, out.strides[0] // 4
        panel = max(MAX_ROWS, _CACHED // width // MAX_ROWS * MAX_ROWS)
        for start in range(0, rows, panel):
            stop = min(rows, start + panel)
            for block in range(blocks):
                weights = np.uint64(weight.ctypes.data) + np.uint64(block * width * COLUMNS * size)
                output_units = np.uint64(units.ctypes.data) + np.uint64(block * COLUMNS * 4)
                for row in range(start, stop, MAX_ROWS):
                    inputs = np.uint64(codes.ctypes.data) + np.uint64(row * stride * 4)
                    row_units = np.uint64(code_units.ctypes.data) + np.uint64(row * 4)
                    place = (row * out_stride + block * COLUMNS) * 4
                    output = np.uint64(out.ctypes.data) + np.uint64(place)
                    count = min(MAX_ROWS, stop - row)
                    for begin in range(0, width, part):
                        groups = min(part, width - begin) // 2
                        own, some = inputs + np.uint64(begin * 2), weights + np.uint64(begin * COLUMNS * size)
                        run(count, own, stride, some, groups, row_units, output_units, output, out_stride)

    made: Callable[..., None] = multiply_pairs
    return made


_pairs_bfloat16, _pairs_int16 = _make_pairs_product("bfloat16", 2, 1 << 30), _make_pairs_product("int16", 2, PART)
_pairs_int8 = _make_pairs_product("int8", 1, PART)


def _multiply_bfloat16(x: Any, weight: Any, units: Any, out: Any, codes: Any, code_units: Any) -> None:
    _pairs_bfloat16(len(x), weight, units, out, codes, code_units)


def _multiply_int16(x: Any, weight: Any, units: Any, out: Any, codes: Any, code_units: Any) -> None:
    _pairs_int16(len(x), weight, units, out, codes, code_units)


def _multiply_int8(x: Any, weight: Any, units: Any, out: Any, codes: Any, code_units: Any) -> None:
    _pairs_int8(len(x), weight, units, out, codes, code_units)


@compiled
def product(x: Floats, linear: PackedLinear) -> Floats:
    """Return a linear layer of some rows: (rows, blocks * COLUMNS)."""
    out = np.empty((len(x), len(linear.bias)), np.float32)
    for row in range(len(x)):
        for column in range(len(linear.bias)):
            out[row, column] = linear.bias[column]
    codes, code_units = make_codes(len(x), x.shape[1])
    round_inputs(x, linear.weight, codes, code_units)
    multiply(x, linear.weight, linear.units, out, codes, code_units)
    return out


def supports(precision: str) -> bool:
    """Return whether there is a tile for this precision on this processor."""
    return precision != "bfloat16" or HAS_BFLOAT16
