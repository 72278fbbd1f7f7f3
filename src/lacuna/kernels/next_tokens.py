# ruff: noqa: ANN401 - numba and llvmlite have no types
"""The output projection of a model for one CPU thread: the most probable next tokens, and the log-probability of any.

Logits are computed for some hundred tokens at a time and read while they are in the cache; those of a whole vocabulary
are never written to memory. With rounded weights, the logits of the best tokens are computed again in float32: they are
exact, and so are the largest terms of the sum of all probabilities. Knows arrays only: nothing of models or searches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from lacuna.kernels.attention import address, exp, find_largest, pick_larger, repeat
from lacuna.kernels.compiling import compiled
from lacuna.kernels.products import Floats, Integers, PackedLinear, make_codes, multiply, round_inputs
from lacuna.kernels.tiles import COLUMNS, LANES

_STRIP = 512  # logits of a row that are computed before they are read
# Tokens that integer weights must rank among the best in excess of those wanted, so that rounding does not lose one.
SPARE = 6


@compiled
def find_next(
    x: Floats,
    head: PackedLinear,
    first: int,
    vocabulary: int,
    table: Floats,
    banned: Integers,
    tokens: Integers,
    logits: Floats,
    log_sums: NDArray[np.float64],
) -> None:
    """Find the tokens with the largest logits in each row, largest first; of equal ones, the lowest first.

    Several threads can work on different blocks of the same projection.

    :param x: Final states of a decoder: (rows, width).
    :param head: Some blocks of the projection.
    :param first: The token of their first column.
    :param vocabulary: Number of tokens; later columns only fill up the last block.
    :param table: The weights in float32, to compute the best logits again: (vocabulary, width), or no row.
    :param banned: Tokens that are not wanted. They count in the sum.
    :param tokens: Output: (rows, wanted). Where there is no token left, 0.
    :param logits: Output: (rows, wanted). Where there is no token left, minus infinity.
    :param log_sums: Output: the log of the sum of the exponentials of all logits of these blocks; NaN for a row that
        is not finite: (rows,).
    """
    rows, blocks, strip, bias = len(x), len(head.weight), _STRIP // COLUMNS, head.bias
    size = tokens.shape[1] + (SPARE if len(table) else 0)
    best, where = np.empty((rows, size), np.float32), np.empty((rows, size), np.int64)
    peaks, totals = np.empty(rows, np.float32), np.zeros(rows, np.float64)
    for row in range(rows):
        _clear(row, best, where)
        peaks[row] = -np.inf
    codes, code_units = make_codes(rows, x.shape[1])
    round_inputs(x, head.weight, codes, code_units)
    part, masks = np.empty((rows, _STRIP), np.float32), np.empty(_STRIP // LANES, np.int32)
    for block in range(0, blocks, strip):
        some = min(strip, blocks - block)
        start = block * COLUMNS
        for row in range(rows):
            for column in range(np.uint64(some * COLUMNS)):
                part[np.uint64(row), column] = bias[np.uint64(start) + column]
        weight, units = head.weight[block : block + some], head.units[start : start + some * COLUMNS]
        multiply(x, weight, units, part, codes, code_units)
        count = min(some * COLUMNS, vocabulary - first - start)
        _fill(part, count, some * COLUMNS)
        for row in range(rows):
            line = address(part) + np.uint64(row * _STRIP * 4)
            found = _gather(line, some * COLUMNS // LANES, masks, first + start, banned, row, best, where)
            peak = max(peaks[row], found)
            totals[row] = _add_exponentials(part, row, count, totals[row], peaks[row], peak)
            peaks[row] = peak
    for row in range(rows):
        if len(table):
            totals[row] += _correct(x, row, table, bias, first, peaks[row], best, where)
        for place in range(tokens.shape[1]):
            tokens[row, place], logits[row, place] = max(where[row, place], 0), best[row, place]
        is_finite = np.isfinite(_dot(x, row, x, row))
        log_sums[row] = np.float64(peaks[row]) + np.log(totals[row]) if is_finite else np.nan


@intrinsic
def _scan(_: Any, line: Any, registers: Any, threshold: Any, masks: Any) -> Any:
    """Compare numbers with a threshold, a register at a time; return the largest.

    :param line: Address of the numbers, which fill some registers.
    :param masks: Address of an integer for each register, whose bits will say which of its numbers are larger.
    """

    def generate(context: Any, b: Any, _: Any, arguments: Any) -> Any:
        line, registers, threshold, masks = arguments
        lane, vector = ir.IntType(32), ir.VectorType(ir.FloatType(), LANES)
        bound, lowest = repeat(b, threshold), ir.Constant(vector, [float("-inf")] * LANES)
        largest = cgutils.alloca_once_value(b, lowest)  # type: ignore[no-untyped-call]
        b.store(lowest, largest)  # also if this is inside of a loop
        with cgutils.for_range(b, registers, intp=ir.IntType(64)) as loop:
            numbers = b.load(b.gep(b.inttoptr(line, vector.as_pointer()), [loop.index]), align=4)
            larger = b.bitcast(b.fcmp_ordered(">", numbers, bound), ir.IntType(LANES))
            mask = b.zext(larger, lane) if LANES < 32 else larger
            b.store(mask, b.gep(b.inttoptr(masks, lane.as_pointer()), [loop.index]), align=4)
            b.store(pick_larger(b, numbers, b.load(largest)), largest)
        return find_largest(b, b.load(largest))

    return types.float32(types.uintp, types.intp, types.float32, types.uintp), generate


@compiled
def _gather(
    line: np.uint64,
    registers: int,
    masks: NDArray[np.int32],
    first: int,
    banned: Integers,
    row: int,
    best: Floats,
    where: Integers,
) -> np.float32:
    """Insert numbers into the list of the best of a row; return the largest, banned ones included.

    :param line: Address of the numbers.
    :param first: The token of the first number.
    """
    last = best.shape[1] - 1
    largest: np.float32 = _scan(line, registers, best[row, last], address(masks))  # type: ignore[call-arg]
    if largest > best[row, last]:
        for register in range(registers):
            mask = masks[register]
            lane = 0
            while mask:
                if mask & 1:
                    place = register * LANES + lane
                    number = load_float(line, place)
                    if number > best[row, last] and not _contains(banned, first + place):
                        _insert(number, first + place, row, best, where)
                mask >>= 1
                lane += 1
    return largest


@compiled
def _add_exponentials(x: Floats, row: int, count: int, total: float, before: np.float32, peak: np.float32) -> float:
    """Add the exponentials of the first numbers of a row to a sum of others, relative to the largest number so far.

    :param before: The largest number in the sum.
    :param peak: The largest number in the sum or the row.
    """
    if peak == -np.inf:
        return 0.0
    part, line = np.float32(0.0), np.uint64(row)
    for column in range(np.uint64(count)):
        part += exp(x[line, column] - peak)
    return float(total * np.exp(np.float64(before - peak)) + np.float64(part))


@compiled
def _correct(
    x: Floats, row: int, table: Floats, bias: Floats, first: int, peak: np.float32, best: Floats, where: Integers
) -> float:
    """Compute the best logits of a row again, and sort them; return what that adds to the sum of exponentials."""
    rounded, chosen, change = best[row].copy(), where[row].copy(), np.float64(0.0)
    _clear(row, best, where)
    for place in range(len(chosen)):
        token = chosen[place]
        if token >= 0:
            exact = _dot(x, row, table, token) + bias[token - first]
            change += np.exp(np.float64(exact - peak)) - np.exp(np.float64(rounded[place] - peak))
            _insert(exact, token, row, best, where)
    return change


@compiled
def score_tokens(x: Floats, table: Floats, bias: Floats, tokens: Integers, logits: Floats) -> None:
    """Compute the logits of given tokens.

    :param table: The weights of the projection: (vocabulary, width).
    :param tokens: (rows, tokens). A negative one stands for none, and its logit is minus infinity.
    :param logits: Output: (rows, tokens).
    """
    for row in range(len(x)):
        for place in range(tokens.shape[1]):
            token = tokens[row, place]
            logits[row, place] = _dot(x, row, table, token) + bias[token] if token >= 0 else np.float32(-np.inf)


@compiled
def _dot(x: Floats, row: int, y: Floats, other: int) -> np.float32:
    """Return the product of a row and a row of another array."""
    total, first, second = np.float32(0.0), np.uint64(row), np.uint64(other)
    for column in range(np.uint64(y.shape[1])):
        total += x[first, column] * y[second, column]
    return total


@intrinsic
def load_float(_: Any, line: Any, place: Any) -> Any:
    """Return a number of an array, by its address."""

    def generate(context: Any, b: Any, _: Any, arguments: Any) -> Any:
        pointer = b.inttoptr(arguments[0], ir.FloatType().as_pointer())
        return b.load(b.gep(pointer, [arguments[1]]), align=4)

    return types.float32(types.uintp, types.intp), generate


# Numbers without a sign below: numba checks all others for indexes from the end, and such loops are not vectorized.
@compiled
def _contains(tokens: Integers, token: int) -> bool:
    found = False
    for place in range(len(tokens)):
        found |= tokens[place] == token
    return found


@compiled
def top_k(x: Floats, k: int, values: Floats, columns: Integers) -> None:
    """Find the ``k`` largest numbers of each row, largest first; of equal ones, those in the first columns.

    If fewer than ``k`` are larger than minus infinity, others follow; NaN counts as infinity in such a row.

    :param values: Output: (rows, k).
    :param columns: Output: the column of each, (rows, k).
    """
    width, nothing = x.shape[1], np.empty(0, np.int64)
    whole, masks = width // LANES, np.empty(width // LANES, np.int32)
    for row in range(len(x)):
        _clear(row, values, columns)
        _gather(address(x) + np.uint64(row * x.strides[0]), whole, masks, 0, nothing, row, values, columns)
        for column in range(whole * LANES, width):
            if x[row, column] > values[row, k - 1]:
                _insert(x[row, column], column, row, values, columns)
        if columns[row, k - 1] < 0:
            _clear(row, values, columns)
            for column in range(width):
                number = x[row, column] if x[row, column] == x[row, column] else np.float32(np.inf)
                if columns[row, k - 1] < 0 or number > values[row, k - 1]:
                    _insert(number, column, row, values, columns)


@compiled
def _fill(x: Floats, start: int, stop: int) -> None:
    """Fill columns with minus infinity."""
    for row in range(len(x)):
        for column in range(start, stop):
            x[row, column] = np.float32(-np.inf)


@compiled
def _clear(row: int, best: Floats, where: Integers) -> None:
    for place in range(best.shape[1]):
        best[row, place], where[row, place] = np.float32(-np.inf), -1


@compiled
def _insert(value: np.float32, column: int, row: int, best: Floats, where: Integers) -> None:
    """Insert a number into the sorted list of a row, after equal ones, and drop the last."""
    place = best.shape[1] - 1
    while place > 0 and (where[row, place - 1] < 0 or value > best[row, place - 1]):
        best[row, place], where[row, place] = best[row, place - 1], where[row, place - 1]
        place -= 1
    best[row, place], where[row, place] = value, column
