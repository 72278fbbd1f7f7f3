"""Kernels for one CPU thread: the layers of a Transformer, log-softmax and top-k over float32 arrays.

A decoder step consists of dozens of small operations. Called one by one from Python, they spend most of their time on
overhead, and threads wait for each other to start the next one. A kernel runs a whole step in one call and releases
the GIL. The first call compiles it for this processor and caches the result on disk. All kernels are in this file: a
cached kernel is compiled again if its own file has changed, but not if one that it calls has changed in another file.
Knows arrays only: nothing of models or searches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]
_F = TypeVar("_F", bound=Callable[..., Any])

# A tile is a product of up to 8 rows and two vectors of outputs. Its sums must fit into the registers.
_WIDE = bool(binding.get_host_cpu_features().get("avx512f"))
_LANES = 16 if _WIDE else 8
_TILE_ROWS = 8 if _WIDE else 6
COLUMNS = 2 * _LANES  # outputs in a block of packed weights

# Inputs that are multiplied with a block of weights while both are in the cache: 256 KB.
_CACHED = 1 << 16

RELU, SILU, GELU = 0, 1, 2  # activations


def _compile(math: set[str] | bool) -> Callable[[_F], _F]:
    settings: dict[str, Any] = {"nogil": True, "fastmath": math, "error_model": "numpy"}

    def decorate(function: _F) -> _F:
        made: _F
        try:
            made = numba.njit(cache=True, **settings)(function)
        except RuntimeError:  # there is no folder to cache it in
            made = numba.njit(**settings)(function)
        return made

    return decorate


# Sums may be reordered and products fused. Infinities keep their meaning: a bias can rule a token out.
_compiled = _compile({"reassoc", "contract", "arcp", "nsz"})


def _make_tile(rows: int) -> Any:  # noqa: ANN401 - numba's own
    """Return a function that adds the product of some rows and one block of weights to the output."""

    @intrinsic
    def tile(_: Any, inputs: Any, stride: Any, weight: Any, width: Any, output: Any, output_stride: Any) -> Any:  # noqa: ANN401
        def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:  # noqa: ANN401
            _generate_tile(builder, rows, *arguments)
            return context.get_dummy_value()

        address, count = types.uintp, types.intp
        return types.void(address, count, address, count, address, count), generate

    return tile


def _generate_tile(b: Any, rows: int, inputs: Any, stride: Any, weight: Any, width: Any, output: Any, out: Any) -> None:  # noqa: ANN401
    """Generate the code of a tile: all sums stay in registers, each weight is read once."""
    element, size, lane = ir.FloatType(), ir.IntType(64), ir.IntType(32)
    vector = ir.VectorType(element, _LANES)
    pointers = [b.inttoptr(address, element.as_pointer()) for address in (inputs, weight, output)]

    def place(pointer: Any, row: Any, length: Any, offset: int | Any) -> Any:  # noqa: ANN401
        offset = ir.Constant(size, offset) if isinstance(offset, int) else offset
        row = ir.Constant(size, row) if isinstance(row, int) else row
        return b.gep(pointer, [b.add(b.mul(row, length), offset)])

    def as_vector(pointer: Any) -> Any:  # noqa: ANN401
        return b.bitcast(pointer, vector.as_pointer())

    cells = [(row, half * _LANES) for half in range(2) for row in range(rows)]
    outputs = [as_vector(place(pointers[2], row, out, column)) for row, column in cells]
    sums = [cgutils.alloca_once(b, vector) for _ in cells]  # type: ignore[no-untyped-call]
    for pointer, total in zip(outputs, sums, strict=True):
        b.store(b.load(pointer, align=4), total)
    with cgutils.for_range(b, width) as loop:
        block = ir.Constant(size, COLUMNS)
        weights = {
            column: b.load(as_vector(place(pointers[1], loop.index, block, column)), align=4) for column in (0, _LANES)
        }
        for row in range(rows):
            value = b.load(place(pointers[0], row, stride, loop.index), align=4)
            undefined = ir.Constant(vector, ir.Undefined)
            first = b.insert_element(undefined, value, ir.Constant(lane, 0))
            everywhere = ir.Constant(ir.VectorType(lane, _LANES), [0] * _LANES)
            repeated = b.shuffle_vector(first, undefined, everywhere)
            for (other, column), total in zip(cells, sums, strict=True):
                if other == row:
                    product = b.fmul(weights[column], repeated, flags=["contract"])
                    b.store(b.fadd(product, b.load(total), flags=["contract"]), total)
    for pointer, total in zip(outputs, sums, strict=True):
        b.store(b.load(total), pointer, align=4)


_tile_1, _tile_2, _tile_3, _tile_4, _tile_5, _tile_6, _tile_7, _tile_8 = map(_make_tile, range(1, 9))


@intrinsic
def _two_to_the(_: Any, exponent: Any) -> Any:  # noqa: ANN401
    """Return a power of two as float32, made from the bits of its exponent."""

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:  # noqa: ANN401
        integer = ir.IntType(32)
        bits = builder.shl(builder.add(arguments[0], ir.Constant(integer, 127)), ir.Constant(integer, 23))
        return builder.bitcast(bits, ir.FloatType())

    return types.float32(types.int32), generate


@_compiled
def _exp(x: np.float32) -> np.float32:
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


class PackedLinear(NamedTuple):
    """A linear layer, or one linear layer of each layer of a Transformer.

    :param weight: Blocks of outputs; the last one is filled up with zeros: ([layers,] blocks, inputs, COLUMNS).
    :param bias: ([layers,] blocks * COLUMNS).
    """

    weight: Floats
    bias: Floats


def pack(weight: Floats, bias: Floats | None) -> PackedLinear:
    """Pack the weights of a linear layer: (outputs, inputs) and (outputs,)."""
    outputs, inputs = weight.shape
    blocks = -(-outputs // COLUMNS)
    filled = np.zeros((blocks * COLUMNS, inputs), np.float32)
    filled[:outputs] = weight
    packed = np.ascontiguousarray(filled.reshape(blocks, COLUMNS, inputs).transpose(0, 2, 1))
    wide = np.zeros(blocks * COLUMNS, np.float32)
    if bias is not None:
        wide[:outputs] = bias
    return PackedLinear(packed, wide)


@_compiled
def _multiply(x: Floats, weight: Floats, first: int, out: Floats) -> None:
    """Add the products of all rows with blocks of weights to the columns of these blocks.

    :param first: The first column of ``out`` to add to, in blocks.
    """
    rows, blocks, width = len(x), weight.shape[0], weight.shape[1]
    stride, out_stride = x.strides[0] // 4, out.strides[0] // 4
    panel = max(_TILE_ROWS, _CACHED // width // _TILE_ROWS * _TILE_ROWS)
    for start in range(0, rows, panel):
        stop = min(rows, start + panel)
        for block in range(blocks):
            weights = np.uint64(weight.ctypes.data) + np.uint64(block * width * COLUMNS * 4)
            for row in range(start, stop, _TILE_ROWS):
                inputs = np.uint64(x.ctypes.data) + np.uint64(row * stride * 4)
                place = (row * out_stride + (first + block) * COLUMNS) * 4
                output = np.uint64(out.ctypes.data) + np.uint64(place)
                _run_tile(min(_TILE_ROWS, stop - row), inputs, stride, weights, width, output, out_stride)


@_compiled
def _run_tile(
    rows: int, inputs: np.uint64, stride: int, weights: np.uint64, width: int, output: np.uint64, out_stride: int
) -> None:
    if rows == 8:
        _tile_8(inputs, stride, weights, width, output, out_stride)
    elif rows == 7:
        _tile_7(inputs, stride, weights, width, output, out_stride)
    elif rows == 6:
        _tile_6(inputs, stride, weights, width, output, out_stride)
    elif rows == 5:
        _tile_5(inputs, stride, weights, width, output, out_stride)
    elif rows == 4:
        _tile_4(inputs, stride, weights, width, output, out_stride)
    elif rows == 3:
        _tile_3(inputs, stride, weights, width, output, out_stride)
    elif rows == 2:
        _tile_2(inputs, stride, weights, width, output, out_stride)
    else:
        _tile_1(inputs, stride, weights, width, output, out_stride)


# Loops rather than assignments of whole arrays: numba takes seconds to compile each of those.
@_compiled
def _copy(values: Floats, start: int, out: Floats) -> None:
    """Copy numbers from ``start`` on, until the output is full."""
    for place in range(len(out)):
        out[place] = values[start + place]


@_compiled
def _linear(x: Floats, weight: Floats, bias: Floats, out: Floats) -> None:
    for row in range(len(x)):
        _copy(bias, 0, out[row])
    _multiply(x, weight, 0, out)


@_compiled
def _add_linear(x: Floats, weight: Floats, bias: Floats, residual: Floats, out: Floats) -> None:
    """Compute a linear layer and add it to the residual."""
    for row in range(len(x)):
        for column in range(len(bias)):
            out[row, column] = residual[row, column] + bias[column]
    _multiply(x, weight, 0, out)


@_compiled
def _normalize(x: Floats, norm: Floats, eps: float, out: Floats) -> None:
    """Apply a layer norm.

    :param norm: Weight and bias: (2, width).
    """
    width = norm.shape[1]
    for row in range(len(x)):
        total = np.float32(0.0)
        for column in range(width):
            total += x[row, column]
        mean = total / np.float32(width)
        squares = np.float32(0.0)
        for column in range(width):
            squares += (x[row, column] - mean) ** 2
        scale = np.float32(1.0) / np.sqrt(squares / np.float32(width) + np.float32(eps))
        for column in range(width):
            out[row, column] = (x[row, column] - mean) * scale * norm[0, column] + norm[1, column]


@_compiled
def _activate(x: Floats, kind: int) -> None:
    for row in range(len(x)):
        line = x[row]
        if kind == RELU:
            for column in range(len(line)):
                line[column] = max(line[column], np.float32(0.0))
        elif kind == SILU:
            for column in range(len(line)):
                line[column] *= _sigmoid(line[column])
        else:
            for column in range(len(line)):
                line[column] *= _normal_share(line[column])


@_compiled
def _sigmoid(x: np.float32) -> np.float32:
    small = _exp(-abs(x))
    return (np.float32(1.0) if x >= 0 else small) / (np.float32(1.0) + small)


@_compiled
def _normal_share(x: np.float32) -> np.float32:
    """Return the share of a normal distribution below ``x``, within 1e-7: formula 7.1.26 of Abramowitz and Stegun."""
    z = abs(x) * np.float32(0.70710678)
    t = np.float32(1.0) / (np.float32(1.0) + np.float32(0.3275911) * z)
    p = np.float32(1.061405429)
    p = p * t - np.float32(1.453152027)
    p = p * t + np.float32(1.421413741)
    p = p * t - np.float32(0.284496736)
    p = p * t + np.float32(0.254829592)
    tail = np.float32(0.5) * p * t * _exp(-z * z)
    return np.float32(1.0) - tail if x >= 0 else tail


@_compiled
def _attend(query: Floats, keys: Floats, values: Floats, places: Integers, weights: Floats, out: Floats) -> None:
    """Run the attention of one query.

    :param query: (heads, size), as ``out``.
    :param keys: (tokens, heads, size), as ``values``.
    :param places: The tokens to attend to.
    :param weights: A buffer with a number for each of them.
    """
    heads, size = query.shape
    scale = np.float32(1.0) / np.sqrt(np.float32(size))
    for head in range(heads):
        largest = np.float32(-np.inf)
        for number in range(len(places)):
            place = np.uint64(places[number])  # without a sign: numba checks all others for indexes from the end
            product = np.float32(0.0)
            for column in range(size):
                product += query[head, column] * keys[place, head, column]
            weights[number] = product * scale
            largest = max(largest, weights[number])
        total = np.float32(0.0)
        for number in range(len(places)):
            weights[number] = _exp(weights[number] - largest)
            total += weights[number]
        for column in range(size):
            out[head, column] = np.float32(0.0)
        for number in range(len(places)):
            share, place = weights[number] / total, np.uint64(places[number])
            for column in range(size):
                out[head, column] += share * values[place, head, column]


class Layers(NamedTuple):
    """Weights of a stack of encoder or decoder layers, one row of each array for each layer.

    :param own: Query, key and value of self-attention, joined.
    :param cross_query: Query of cross-attention; an encoder has none.
    :param cross_source: Key and value of cross-attention, joined.
    :param norms: Weight and bias of each norm: (layers, norms, 2, width).
    :param first_norm: Norm of the embeddings: (1, 2, width), or (0, 2, width) if there is none.
    :param last_norm: Norm of the final states, in the same form.
    :param settings: Number of heads, activation, whether layers normalize their input instead of their output, and the
        epsilon of the norms.
    """

    own: PackedLinear
    own_out: PackedLinear
    cross_query: PackedLinear
    cross_source: PackedLinear
    cross_out: PackedLinear
    widen: PackedLinear
    narrow: PackedLinear
    norms: Floats
    first_norm: Floats
    last_norm: Floats
    settings: tuple[int, int, bool, float]


@_compiled
def _embed(
    tokens: Integers, positions: Integers, table: Floats, position_table: Floats, scale: float, x: Floats
) -> None:
    for row in range(len(tokens)):
        token, position = table[tokens[row]], position_table[positions[row]]
        for column in range(table.shape[1]):
            x[row, column] = token[column] * np.float32(scale) + position[column]


@_compiled
def _buffers(rows: int, layers: Layers) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Allocate the states, a copy, the output of attention, that of the joined projections, and the wide states."""
    width = layers.own_out.bias.shape[1]
    x, y = np.zeros((rows, width), np.float32), np.zeros((rows, width), np.float32)
    attended = np.zeros((rows, width), np.float32)
    made = np.empty((rows, layers.own.bias.shape[1]), np.float32)
    return x, y, attended, made, np.empty((rows, layers.widen.bias.shape[1]), np.float32)


@_compiled
def _enter_block(x: Floats, norm: Floats, norm_first: bool, eps: float, y: Floats) -> Floats:
    """Return the input of a block: the states, or their norm, for which ``y`` is the buffer."""
    if norm_first:
        _normalize(x, norm, eps, y)
        return y
    return x


@_compiled
def _leave_block(
    made: Floats, linear: PackedLinear, layer: int, norm: Floats, norm_first: bool, eps: float, x: Floats, y: Floats
) -> None:
    """Add a linear layer of a block's output to the states, and normalize them unless that was done before."""
    if norm_first:
        _add_linear(made, linear.weight[layer], linear.bias[layer], x, x)
    else:
        _add_linear(made, linear.weight[layer], linear.bias[layer], x, y)
        _normalize(y, norm, eps, x)


@_compiled
def _project_self(x: Floats, layer: int, layers: Layers, y: Floats, made: Floats) -> None:
    """Compute query, key and value of self-attention."""
    _, _, norm_first, eps = layers.settings
    inputs = _enter_block(x, layers.norms[layer, 0], norm_first, eps, y)
    _linear(inputs, layers.own.weight[layer], layers.own.bias[layer], made)


@_compiled
def _feed_forward(x: Floats, layer: int, layers: Layers, y: Floats, wide: Floats) -> None:
    """Apply the feed-forward block of a layer to the states."""
    _, activation, norm_first, eps = layers.settings
    norm = layers.norms[layer, layers.norms.shape[1] - 1]
    _linear(_enter_block(x, norm, norm_first, eps, y), layers.widen.weight[layer], layers.widen.bias[layer], wide)
    _activate(wide, activation)
    _leave_block(wide, layers.narrow, layer, norm, norm_first, eps, x, y)


@_compiled
def encode(
    tokens: Integers,
    positions: Integers,
    starts: Integers,
    table: Floats,
    position_table: Floats,
    scale: float,
    encoder: Layers,
    decoder: Layers,
) -> Floats:
    """Run an encoder over sentences without padding; return the keys and values of each layer's cross-attention.

    :param tokens: Of all sentences, one after the other.
    :param positions: The row of ``position_table`` of each token.
    :param starts: The first token of each sentence, and the number of tokens.
    :return: (layers, 2, tokens, heads, size).
    """
    rows, width = len(tokens), table.shape[1]
    heads, _, norm_first, eps = encoder.settings
    x, y, attended, made, wide = _buffers(rows, encoder)
    shape = heads, width // heads
    keys, values = np.empty((rows, *shape), np.float32), np.empty((rows, *shape), np.float32)
    weights, everything = np.empty(rows, np.float32), np.arange(rows)
    _embed(tokens, positions, table, position_table, scale, x)
    if len(encoder.first_norm):
        _normalize(x, encoder.first_norm[0], eps, x)
    for layer in range(len(encoder.norms)):
        _project_self(x, layer, encoder, y, made)
        for row in range(rows):
            _copy(made[row], width, keys[row].reshape(width))
            _copy(made[row], 2 * width, values[row].reshape(width))
        for sentence in range(len(starts) - 1):
            places = everything[starts[sentence] : starts[sentence + 1]]
            for row in places:
                query, out = made[row, :width].reshape(shape), attended[row, :width].reshape(shape)
                _attend(query, keys, values, places, weights, out)
        _leave_block(attended, encoder.own_out, layer, encoder.norms[layer, 0], norm_first, eps, x, y)
        _feed_forward(x, layer, encoder, y, wide)
    if len(encoder.last_norm):
        _normalize(x, encoder.last_norm[0], eps, x)
    layers = len(decoder.norms)
    source = np.empty((layers, 2, rows, *shape), np.float32)
    both = np.empty((rows, decoder.cross_source.bias.shape[1]), np.float32)
    for layer in range(layers):
        _linear(x, decoder.cross_source.weight[layer], decoder.cross_source.bias[layer], both)
        for row in range(rows):
            _copy(both[row], 0, source[layer, 0, row].reshape(width))
            _copy(both[row], width, source[layer, 1, row].reshape(width))
    return source


@_compiled
def decode(
    tokens: Integers,
    positions: Integers,
    table: Floats,
    position_table: Floats,
    scale: float,
    decoder: Layers,
    cache: Floats,
    slots: Integers,
    lengths: Integers,
    source: Floats,
    source_places: Integers,
) -> Floats:
    """Run a decoder for one token of each row, and write its keys and values into the cache; return the last states.

    :param cache: Keys and values of all tokens so far: (layers, 2, slots, heads, size).
    :param slots: The slot of each token of each row, the new one included: (rows, tokens).
    :param lengths: Number of tokens of each row, the new one included.
    :param source: Keys and values of cross-attention, see :func:`encode`.
    :param source_places: First token of each row's source, and the one after its last: (rows, 2).
    """
    rows, width = len(tokens), table.shape[1]
    heads, _, norm_first, eps = decoder.settings
    x, y, attended, made, wide = _buffers(rows, decoder)
    weights = np.empty(max(slots.shape[1], source.shape[2]), np.float32)
    everything = np.arange(source.shape[2])
    shape = heads, width // heads
    _embed(tokens, positions, table, position_table, scale, x)
    if len(decoder.first_norm):
        _normalize(x, decoder.first_norm[0], eps, x)
    for layer in range(len(decoder.norms)):
        _project_self(x, layer, decoder, y, made)
        keys, values = cache[layer, 0], cache[layer, 1]
        for row in range(rows):
            slot = slots[row, lengths[row] - 1]
            _copy(made[row], width, keys[slot].reshape(width))
            _copy(made[row], 2 * width, values[slot].reshape(width))
        for row in range(rows):
            places = slots[row, : lengths[row]]
            query, out = made[row, :width].reshape(shape), attended[row, :width].reshape(shape)
            _attend(query, keys, values, places, weights, out)
        _leave_block(attended, decoder.own_out, layer, decoder.norms[layer, 0], norm_first, eps, x, y)

        inputs = _enter_block(x, decoder.norms[layer, 1], norm_first, eps, y)
        _linear(inputs, decoder.cross_query.weight[layer], decoder.cross_query.bias[layer], attended)
        keys, values = source[layer, 0], source[layer, 1]
        for row in range(rows):
            places = everything[source_places[row, 0] : source_places[row, 1]]
            _copy(attended[row], 0, made[row, :width])  # not needed any more
            query, out = made[row, :width].reshape(shape), attended[row, :width].reshape(shape)
            _attend(query, keys, values, places, weights, out)
        _leave_block(attended, decoder.cross_out, layer, decoder.norms[layer, 1], norm_first, eps, x, y)
        _feed_forward(x, layer, decoder, y, wide)
    if len(decoder.last_norm):
        _normalize(x, decoder.last_norm[0], eps, x)
    states = np.empty((rows, width), np.float32)
    for row in range(rows):
        _copy(x[row], 0, states[row])
    return states


@_compiled
def project(x: Floats, weight: Floats, bias: Floats, first: int, out: Floats) -> None:
    """Compute some blocks of a linear layer: several threads can compute different blocks of the same output.

    :param first: Number of the first block in ``out``.
    """
    for row in range(len(x)):
        _copy(bias, 0, out[row, first * COLUMNS : first * COLUMNS + len(bias)])
    _multiply(x, weight, first, out)


@_compiled
def log_softmax(x: Floats, columns: int) -> None:
    """Replace the first ``columns`` of each row by their log-softmax."""
    for row in range(len(x)):
        line = x[row, :columns]
        largest = np.float32(-np.inf)
        for column in range(columns):
            largest = max(largest, line[column])
        # In parts, so that small terms are not lost in a large sum.
        total = np.float64(0.0)
        for start in range(0, columns, 1024):
            part = np.float32(0.0)
            for column in range(start, min(columns, start + 1024)):
                part += _exp(line[column] - largest)
            total += part
        shift = np.float64(largest) + np.log(total)  # in float64: the log-probability of a likely token is near 0
        for column in range(columns):
            line[column] = np.float32(np.float64(line[column]) - shift)


@_compiled
def top_k(x: Floats, k: int, values: Floats, columns: Integers) -> None:
    """Find the ``k`` largest numbers of each row, largest first; of equal ones, those in the first columns.

    If fewer than ``k`` are larger than minus infinity, others follow; NaN counts as infinity in such a row.

    :param values: Output: (rows, k).
    :param columns: Output: the column of each, (rows, k).
    """
    width = x.shape[1]
    for row in range(len(x)):
        line, best, where = x[row], values[row], columns[row]
        _clear(best, where)
        for start in range(0, width, 64):
            stop = min(width, start + 64)
            if _largest(line[start:stop]) > best[k - 1]:
                for column in range(start, stop):
                    if line[column] > best[k - 1]:
                        _insert(line[column], column, best, where)
        if where[k - 1] < 0:
            _clear(best, where)
            for column in range(width):
                number = line[column] if line[column] == line[column] else np.float32(np.inf)
                if where[k - 1] < 0 or number > best[k - 1]:
                    _insert(number, column, best, where)


@_compiled
def _clear(best: Floats, where: Integers) -> None:
    for place in range(len(best)):
        best[place], where[place] = np.float32(-np.inf), -1


@_compile(True)
def _largest(x: Floats) -> float:
    """Return the largest number. NaN may be ignored: only then is the loop vectorized."""
    largest = x[0]
    for place in range(len(x)):
        largest = max(largest, x[place])
    return float(largest)


@_compiled
def _insert(value: np.float32, column: int, best: Floats, where: Integers) -> None:
    """Insert a number into a sorted list, after equal ones, and drop the last."""
    place = len(best) - 1
    while place > 0 and (where[place - 1] < 0 or value > best[place - 1]):
        best[place], where[place] = best[place - 1], where[place - 1]
        place -= 1
    best[place], where[place] = value, column
