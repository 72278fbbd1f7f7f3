"""The layers of a Transformer for one CPU thread, in any precision that :mod:`lacuna.kernels.products` has.

A decoder step consists of dozens of small operations. Called one by one from Python, they spend most of their time on
overhead, and threads wait for each other to start the next one. A kernel runs a whole step in one call and releases the
GIL. Only linear layers are rounded; norms, attention and residuals are float32. Knows arrays only: nothing of models or
searches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lacuna.kernels.attention import attend, attend_all, weight_buffer
from lacuna.kernels.compiling import compiled
from lacuna.kernels.products import Codes, Floats, Integers, PackedLinear, make_codes, multiply, round_inputs
from lacuna.kernels.registers import address, exp

RELU, SILU, GELU = 0, 1, 2  # activations

Scratch = tuple[Codes, Floats]  # see make_codes


# Loops rather than assignments of whole arrays: numba takes seconds to compile each of those.
@compiled
def _copy(values: Floats, start: int, out: Floats) -> None:
    """Copy numbers from ``start`` on, until the output is full."""
    for place in range(len(out)):
        out[place] = values[start + place]


@compiled
def _linear(x: Floats, linear: PackedLinear, layer: int, scratch: Scratch, out: Floats) -> None:
    """Compute a linear layer of one layer of the stack."""
    bias = linear.bias[layer]
    for row in range(len(x)):
        _copy(bias, 0, out[row])
    round_inputs(x, linear.weight[layer], *scratch)
    multiply(x, linear.weight[layer], linear.units[layer], out, *scratch)


@compiled
def _add_linear(x: Floats, linear: PackedLinear, layer: int, scratch: Scratch, residual: Floats, out: Floats) -> None:
    """Compute a linear layer and add it to the residual."""
    bias = linear.bias[layer]
    for row in range(len(x)):
        for column in range(len(bias)):
            out[row, column] = residual[row, column] + bias[column]
    round_inputs(x, linear.weight[layer], *scratch)
    multiply(x, linear.weight[layer], linear.units[layer], out, *scratch)


@compiled
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


@compiled
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


@compiled
def _sigmoid(x: np.float32) -> np.float32:
    small = exp(-abs(x))
    return (np.float32(1.0) if x >= 0 else small) / (np.float32(1.0) + small)


@compiled
def _normal_share(x: np.float32) -> np.float32:
    """Return the share of a normal distribution below ``x``, within 1e-7: formula 7.1.26 of Abramowitz and Stegun."""
    z = abs(x) * np.float32(0.70710678)
    t = np.float32(1.0) / (np.float32(1.0) + np.float32(0.3275911) * z)
    p = np.float32(1.061405429)
    p = p * t - np.float32(1.453152027)
    p = p * t + np.float32(1.421413741)
    p = p * t - np.float32(0.284496736)
    p = p * t + np.float32(0.254829592)
    tail = np.float32(0.5) * p * t * exp(-z * z)
    return np.float32(1.0) - tail if x >= 0 else tail


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


class Tables(NamedTuple):
    """Embeddings of an encoder or a decoder.

    :param tokens: (vocabulary, width).
    :param positions: (positions, width).
    :param first_position: Row of the first token of a sentence in ``positions``.
    :param scale: Factor of the token embeddings.
    """

    tokens: Floats
    positions: Floats
    first_position: int
    scale: float


@compiled
def _embed(tokens: Integers, positions: Integers, tables: Tables, layers: Layers, x: Floats) -> None:
    """Embed tokens and, where the model does that, normalize the embeddings."""
    for row in range(len(tokens)):
        token, position = tables.tokens[tokens[row]], tables.positions[positions[row] + tables.first_position]
        for column in range(len(token)):
            x[row, column] = token[column] * np.float32(tables.scale) + position[column]
    if len(layers.first_norm):
        _normalize(x, layers.first_norm[0], layers.settings[3], x)


@compiled
def _buffers(rows: int, layers: Layers) -> tuple[Floats, Floats, Floats, Floats, Floats, Scratch]:
    """Allocate the states, a copy, what attention and the joined projections give, the wide states, and scratch."""
    width, wide = layers.own_out.bias.shape[1], layers.widen.bias.shape[1]
    x, y = np.zeros((rows, width), np.float32), np.zeros((rows, width), np.float32)
    attended = np.zeros((rows, width), np.float32)
    made = np.empty((rows, layers.own.bias.shape[1]), np.float32)
    return x, y, attended, made, np.empty((rows, wide), np.float32), make_codes(rows, max(width, wide))


@compiled
def _enter_block(x: Floats, norm: Floats, norm_first: bool, eps: float, y: Floats) -> Floats:
    """Return the input of a block: the states, or their norm, for which ``y`` is the buffer."""
    if norm_first:
        _normalize(x, norm, eps, y)
        return y
    return x


@compiled
def _leave_block(
    made: Floats, linear: PackedLinear, layer: int, layers: Layers, norm: Floats, scratch: Scratch, x: Floats, y: Floats
) -> None:
    """Add a linear layer of a block's output to the states, and normalize them unless that was done before."""
    _, _, norm_first, eps = layers.settings
    if norm_first:
        _add_linear(made, linear, layer, scratch, x, x)
    else:
        _add_linear(made, linear, layer, scratch, x, y)
        _normalize(y, norm, eps, x)


@compiled
def _project_self(x: Floats, layer: int, layers: Layers, scratch: Scratch, y: Floats, made: Floats) -> None:
    """Compute query, key and value of self-attention."""
    _, _, norm_first, eps = layers.settings
    inputs = _enter_block(x, layers.norms[layer, 0], norm_first, eps, y)
    _linear(inputs, layers.own, layer, scratch, made)


@compiled
def _feed_forward(x: Floats, layer: int, layers: Layers, scratch: Scratch, y: Floats, wide: Floats) -> None:
    """Apply the feed-forward block of a layer to the states."""
    _, activation, norm_first, eps = layers.settings
    norm = layers.norms[layer, layers.norms.shape[1] - 1]
    _linear(_enter_block(x, norm, norm_first, eps, y), layers.widen, layer, scratch, wide)
    _activate(wide, activation)
    _leave_block(wide, layers.narrow, layer, layers, norm, scratch, x, y)


@compiled
def _finish(x: Floats, layers: Layers) -> None:
    """Apply the norm of the final states, where there is one."""
    if len(layers.last_norm):
        _normalize(x, layers.last_norm[0], layers.settings[3], x)


@compiled
def _attend_within(made: Floats, starts: Integers, width: int, heads: int, causal: bool, attended: Floats) -> None:
    """Run the self-attention of whole sentences.

    :param made: Query, key and value of all tokens: (tokens, 3 * width or more).
    :param starts: The first token of each sentence, and the number of tokens.
    """
    for sentence in range(len(starts) - 1):
        first, last = starts[sentence], starts[sentence + 1]
        queries, keys = made[first:last, :width], made[first:last, width : 2 * width]
        values, out = made[first:last, 2 * width : 3 * width], attended[first:last, :width]
        attend_all(queries, keys, values, heads, causal, out)


@compiled
def _states(x: Floats, width: int) -> Floats:
    """Copy the states without the columns that fill up a block."""
    states = np.empty((len(x), width), np.float32)
    for row in range(len(x)):
        _copy(x[row], 0, states[row])
    return states


@compiled
def encode(
    tokens: Integers, positions: Integers, starts: Integers, tables: Tables, encoder: Layers, decoder: Layers
) -> Floats:
    """Run an encoder over sentences without padding; return the keys and values of each layer's cross-attention.

    :param tokens: Of all sentences, one after the other.
    :param positions: The position of each token in its sentence.
    :param starts: The first token of each sentence, and the number of tokens.
    :return: (layers, 2, tokens, width).
    """
    rows, width = len(tokens), tables.tokens.shape[1]
    x, y, attended, made, wide, scratch = _buffers(rows, encoder)
    _embed(tokens, positions, tables, encoder, x)
    for layer in range(len(encoder.norms)):
        _project_self(x, layer, encoder, scratch, y, made)
        _attend_within(made, starts, width, encoder.settings[0], False, attended)
        _leave_block(attended, encoder.own_out, layer, encoder, encoder.norms[layer, 0], scratch, x, y)
        _feed_forward(x, layer, encoder, scratch, y, wide)
    _finish(x, encoder)
    layers = len(decoder.norms)
    source = np.empty((layers, 2, rows, width), np.float32)
    both = np.empty((rows, decoder.cross_source.bias.shape[1]), np.float32)
    for layer in range(layers):
        _linear(x, decoder.cross_source, layer, scratch, both)
        for row in range(rows):
            _copy(both[row], 0, source[layer, 0, row])
            _copy(both[row], width, source[layer, 1, row])
    return source


class Hypotheses(NamedTuple):
    """Unfinished translations of a search, one row each, in a KV cache that all of them share.

    :param slots: The slot of each token of each row in the cache: (rows, tokens or more).
    :param lengths: Number of tokens of each row.
    :param source_places: First token of each row's source, and the one after its last: (rows, 2).
    """

    slots: Integers
    lengths: Integers
    source_places: Integers


@compiled
def advance(old: Hypotheses, rows: Integers, taken: Integers, new: Hypotheses) -> None:
    """Write the hypotheses that extend some rows by one token.

    :param taken: The slot of each new token.
    """
    for row in range(len(rows)):
        before = rows[row]
        length = old.lengths[before]
        for place in range(length):
            new.slots[row, place] = old.slots[before, place]
        new.slots[row, length] = taken[row]
        new.lengths[row] = length + 1
        new.source_places[row, 0] = old.source_places[before, 0]
        new.source_places[row, 1] = old.source_places[before, 1]


@compiled
def decode(
    tokens: Integers, hypotheses: Hypotheses, tables: Tables, decoder: Layers, cache: Floats, source: Floats
) -> Floats:
    """Run a decoder for the last token of each row, and write its keys and values into the cache; return the states.

    :param cache: Keys and values of all tokens so far: (layers, 2, slots, width).
    :param source: Keys and values of cross-attention, see :func:`encode`.
    """
    slots, lengths, source_places = hypotheses
    rows, width = len(tokens), tables.tokens.shape[1]
    heads, _, norm_first, eps = decoder.settings
    x, y, attended, made, wide, scratch = _buffers(rows, decoder)
    positions, everything = np.empty(rows, np.int64), np.empty(source.shape[2], np.int64)
    for row in range(rows):
        positions[row] = lengths[row] - 1
    for place in range(len(everything)):
        everything[place] = place
    weights = weight_buffer(max(slots.shape[1], source.shape[2]))
    size = width // heads
    _embed(tokens, positions, tables, decoder, x)
    for layer in range(len(decoder.norms)):
        # Addresses: see attend. They are taken in each layer, because numba frees an array after its last use.
        buffer, queries, out = address(weights), address(made), address(attended)
        _project_self(x, layer, decoder, scratch, y, made)
        keys, values = cache[layer, 0], cache[layer, 1]
        for row in range(rows):
            slot = slots[row, positions[row]]
            _copy(made[row], width, keys[slot])
            _copy(made[row], 2 * width, values[slot])
        own_keys, own_values, places = address(keys), address(values), address(slots)
        for row in range(rows):
            query, made_here = queries + np.uint64(row * made.strides[0]), out + np.uint64(row * attended.strides[0])
            own = places + np.uint64(row * slots.strides[0])
            attend(query, own_keys, own_values, heads, size, own, lengths[row], buffer, made_here)
        _leave_block(attended, decoder.own_out, layer, decoder, decoder.norms[layer, 0], scratch, x, y)

        inputs = _enter_block(x, decoder.norms[layer, 1], norm_first, eps, y)
        _linear(inputs, decoder.cross_query, layer, scratch, made[:, : attended.shape[1]])  # the rest is not needed now
        own_keys, own_values, places = address(source[layer, 0]), address(source[layer, 1]), address(everything)
        for row in range(rows):
            query, made_here = queries + np.uint64(row * made.strides[0]), out + np.uint64(row * attended.strides[0])
            start, end = source_places[row, 0], source_places[row, 1]
            own = places + np.uint64(8 * start)
            attend(query, own_keys, own_values, heads, size, own, end - start, buffer, made_here)
        _leave_block(attended, decoder.cross_out, layer, decoder, decoder.norms[layer, 1], scratch, x, y)
        _feed_forward(x, layer, decoder, scratch, y, wide)
    _finish(x, decoder)
    return _states(x, width)


@compiled
def force(
    tokens: Integers,
    positions: Integers,
    starts: Integers,
    tables: Tables,
    decoder: Layers,
    source: Floats,
    source_starts: Integers,
) -> Floats:
    """Run a decoder over whole translations (teacher forcing); return the states of all tokens.

    :param tokens: Inputs of the decoder of all sentences, one after the other.
    :param positions: The position of each token in its sentence.
    :param starts: The first token of each sentence, and the number of tokens.
    :param source: See :func:`encode`.
    :param source_starts: The same for the sources.
    """
    rows, width = len(tokens), tables.tokens.shape[1]
    heads, _, norm_first, eps = decoder.settings
    x, y, attended, made, wide, scratch = _buffers(rows, decoder)
    _embed(tokens, positions, tables, decoder, x)
    for layer in range(len(decoder.norms)):
        _project_self(x, layer, decoder, scratch, y, made)
        _attend_within(made, starts, width, heads, True, attended)
        _leave_block(attended, decoder.own_out, layer, decoder, decoder.norms[layer, 0], scratch, x, y)
        inputs = _enter_block(x, decoder.norms[layer, 1], norm_first, eps, y)
        _linear(inputs, decoder.cross_query, layer, scratch, attended)
        keys, values = source[layer, 0], source[layer, 1]
        for sentence in range(len(starts) - 1):
            first, last = source_starts[sentence], source_starts[sentence + 1]
            own = attended[starts[sentence] : starts[sentence + 1], :width]
            attend_all(own, keys[first:last, :width], values[first:last, :width], heads, False, own)
        _leave_block(attended, decoder.cross_out, layer, decoder, decoder.norms[layer, 1], scratch, x, y)
        _feed_forward(x, layer, decoder, scratch, y, wide)
    _finish(x, decoder)
    return _states(x, width)
