"""The output projection of a model for one CPU thread: the most probable next tokens, and the log-probability of any.

Logits are computed for some hundred tokens at a time and read while they are in the cache; those of a whole vocabulary
are never written to memory. With rounded weights, the logits of the best tokens are computed again in float32: they are
exact, and so are the largest terms of the sum of all probabilities. Knows arrays only: nothing of models or searches.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lacuna.kernels.compiling import compile_with, compiled
from lacuna.kernels.exponentials import exp
from lacuna.kernels.products import Floats, Integers, PackedLinear, make_codes, multiply, round_inputs
from lacuna.kernels.tiles import COLUMNS

STRIP = 512  # logits of a row that are computed before they are read
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
    rows, blocks, strip = len(x), len(head.weight), STRIP // COLUMNS
    size = tokens.shape[1] + (SPARE if len(table) else 0)
    best, where = np.empty((rows, size), np.float32), np.empty((rows, size), np.int64)
    peaks, totals = np.empty(rows, np.float32), np.zeros(rows, np.float64)
    for row in range(rows):
        clear(best[row], where[row])
        peaks[row] = -np.inf
    codes, code_units = make_codes(rows, x.shape[1])
    round_inputs(x, head.weight, codes, code_units)
    part = np.empty((rows, STRIP), np.float32)
    for block in range(0, blocks, strip):
        some = min(strip, blocks - block)
        start = block * COLUMNS
        for row in range(rows):
            for column in range(some * COLUMNS):
                part[row, column] = head.bias[start + column]
        weight, units = head.weight[block : block + some], head.units[start : start + some * COLUMNS]
        multiply(x, weight, units, part, codes, code_units)
        count = min(some * COLUMNS, vocabulary - first - start)
        for row in range(rows):
            line = part[row, :count]
            peak = max(peaks[row], gather(line, first + start, banned, best[row], where[row]))
            totals[row] = _add_exponentials(line, totals[row], peaks[row], peak)
            peaks[row] = peak
    for row in range(rows):
        if len(table):
            totals[row] += _correct(x[row], table, head.bias, first, peaks[row], best[row], where[row])
        for place in range(tokens.shape[1]):
            tokens[row, place], logits[row, place] = max(where[row, place], 0), best[row, place]
        is_finite = np.isfinite(dot(x[row], x[row]))
        log_sums[row] = np.float64(peaks[row]) + np.log(totals[row]) if is_finite else np.nan


@compiled
def gather(line: Floats, first: int, banned: Integers, best: Floats, where: Integers) -> np.float32:
    """Insert numbers into the list of the best; return the largest, banned ones included."""
    last, largest = len(best) - 1, np.float32(_largest(line))
    if largest > best[last]:
        for start in range(0, len(line), 64):
            stop = min(len(line), start + 64)
            if _largest(line[start:stop]) > best[last]:
                for column in range(start, stop):
                    if line[column] > best[last] and not _contains(banned, first + column):
                        _insert(line[column], first + column, best, where)
    return largest


@compiled
def _add_exponentials(line: Floats, total: float, before: np.float32, peak: np.float32) -> float:
    """Add exponentials to a sum of others, relative to the largest number so far.

    :param before: The largest number in the sum.
    :param peak: The largest number in the sum or the line.
    """
    if peak == -np.inf:
        return 0.0
    part = np.float32(0.0)
    for column in range(len(line)):
        part += exp(line[column] - peak)
    return float(total * np.exp(np.float64(before - peak)) + np.float64(part))


@compiled
def _correct(
    x: Floats, table: Floats, bias: Floats, first: int, peak: np.float32, best: Floats, where: Integers
) -> float:
    """Compute the best logits again, and sort them; return what that adds to the sum of exponentials."""
    rounded, chosen, change = best.copy(), where.copy(), np.float64(0.0)
    clear(best, where)
    for place in range(len(chosen)):
        token = chosen[place]
        if token >= 0:
            exact = dot(x, table[token]) + bias[token - first]
            change += np.exp(np.float64(exact - peak)) - np.exp(np.float64(rounded[place] - peak))
            _insert(exact, token, best, where)
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
            logits[row, place] = dot(x[row], table[token]) + bias[token] if token >= 0 else np.float32(-np.inf)


@compiled
def dot(x: Floats, y: Floats) -> np.float32:
    """Return the product of two vectors; the first may be longer."""
    total = np.float32(0.0)
    for column in range(len(y)):
        total += x[column] * y[column]
    return total


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
    width = x.shape[1]
    for row in range(len(x)):
        line, best, where = x[row], values[row], columns[row]
        clear(best, where)
        for start in range(0, width, 64):
            stop = min(width, start + 64)
            if _largest(line[start:stop]) > best[k - 1]:
                for column in range(start, stop):
                    if line[column] > best[k - 1]:
                        _insert(line[column], column, best, where)
        if where[k - 1] < 0:
            clear(best, where)
            for column in range(width):
                number = line[column] if line[column] == line[column] else np.float32(np.inf)
                if where[k - 1] < 0 or number > best[k - 1]:
                    _insert(number, column, best, where)


@compiled
def clear(best: Floats, where: Integers) -> None:
    """Empty a list of the best numbers."""
    for place in range(len(best)):
        best[place], where[place] = np.float32(-np.inf), -1


def _find_largest(x: Floats) -> float:
    largest = x[0]
    for place in range(len(x)):
        largest = max(largest, x[place])
    return float(largest)


_largest = compile_with(_find_largest, True)  # may ignore NaN: only then is the loop vectorized


@compiled
def _insert(value: np.float32, column: int, best: Floats, where: Integers) -> None:
    """Insert a number into a sorted list, after equal ones, and drop the last."""
    place = len(best) - 1
    while place > 0 and (where[place - 1] < 0 or value > best[place - 1]):
        best[place], where[place] = best[place - 1], where[place - 1]
        place -= 1
    best[place], where[place] = value, column
