"""Attention for one CPU thread, in float32: of one query to chosen tokens, or of all tokens of a sentence at once.

Knows arrays only: nothing of layers.
"""

from __future__ import annotations

import numpy as np

from lacuna.kernels.compiling import compiled
from lacuna.kernels.exponentials import exp
from lacuna.kernels.products import Floats, Integers, make_codes, multiply
from lacuna.kernels.tiles import COLUMNS


@compiled
def attend(query: Floats, keys: Floats, values: Floats, places: Integers, weights: Floats, out: Floats) -> None:
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
            weights[number] = exp(weights[number] - largest)
            total += weights[number]
        for column in range(size):
            out[head, column] = np.float32(0.0)
        for number in range(len(places)):
            share, place = weights[number] / total, np.uint64(places[number])
            for column in range(size):
                out[head, column] += share * values[place, head, column]


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
        for token in range(tokens):
            block, place = token // COLUMNS, token % COLUMNS
            for column in range(size):
                packed_keys[block, column, place] = keys[token, first + column]
                packed_values[column // COLUMNS, token, column % COLUMNS] = values[token, first + column]
        for row in range(rows):
            for token in range(weights.shape[1]):
                weights[row, token] = np.float32(0.0)
            for column in range(made.shape[1]):
                made[row, column] = np.float32(0.0)
        multiply(queries[:, first : first + size], packed_keys, units, weights, codes, code_units)
        for row in range(rows):
            _softmax(weights[row, :tokens], row + 1 if causal else tokens, scale)
        multiply(weights[:, :tokens], packed_values, units, made, codes, code_units)
        for row in range(rows):
            for column in range(size):
                out[row, first + column] = made[row, column]


@compiled
def _softmax(weights: Floats, count: int, scale: np.float32) -> None:
    """Turn the products of a query into weights: the softmax of the first ``count``, and 0 for the others."""
    largest = np.float32(-np.inf)
    for token in range(count):
        largest = max(largest, weights[token])
    total = np.float32(0.0)
    for token in range(count):
        weights[token] = exp((weights[token] - largest) * scale)
        total += weights[token]
    factor = np.float32(1.0) / total
    for token in range(count):
        weights[token] *= factor
    for token in range(count, len(weights)):
        weights[token] = np.float32(0.0)
