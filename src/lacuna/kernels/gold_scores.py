"""The output projection under teacher forcing: prediction, log-probability of the given token, and entropy.

As in :mod:`lacuna.kernels.next_tokens`, logits are read while they are in the cache, and those of the best tokens are
computed again in float32 if the weights are rounded; so is that of the given token. Knows arrays only.
"""

from __future__ import annotations

import numpy as np

from lacuna.kernels.compiling import compiled
from lacuna.kernels.next_tokens import SPARE, STRIP, clear, dot, fill, gather
from lacuna.kernels.products import Floats, Integers, PackedLinear, make_codes, multiply, round_inputs
from lacuna.kernels.registers import address, exp
from lacuna.kernels.tiles import COLUMNS, LANES


@compiled
def score_gold(
    x: Floats,
    head: PackedLinear,
    vocabulary: int,
    table: Floats,
    gold: Integers,
    predictions: Integers,
    log_p_gold: Floats,
    entropy: Floats,
) -> None:
    """Compare the distribution of each row with its gold token.

    With y the logits minus their maximum, z the sum of exp(y) and s the sum of exp(y) y: the log-probability of a token
    is y - log z, and the entropy is log z - s / z.

    :param x: Final states of a decoder: (rows, width).
    :param vocabulary: Number of tokens; later columns only fill up the last block.
    :param table: The weights in float32, to compute the logits that matter again: (vocabulary, width), or no row.
    :param gold: (rows,), as all outputs.
    :param predictions: Output: the token with the largest logit; of equal ones, the lowest.
    :param log_p_gold: Output: NaN for a row that is not finite, as the entropy.
    """
    rows, blocks, strip = len(x), len(head.weight), STRIP // COLUMNS
    size = 1 + SPARE if len(table) else 1
    best, where = np.empty((rows, size), np.float32), np.empty((rows, size), np.int64)
    of_gold, nothing = np.empty(rows, np.float32), np.empty(0, np.int64)
    sums = np.zeros((rows, 3), np.float64)  # the maximum, z, s
    for row in range(rows):
        clear(row, best, where)
        sums[row, 0] = -np.inf
    codes, code_units = make_codes(rows, x.shape[1])
    round_inputs(x, head.weight, codes, code_units)
    part, masks = np.empty((rows, STRIP), np.float32), np.empty(STRIP // LANES, np.int32)
    for block in range(0, blocks, strip):
        some = min(strip, blocks - block)
        start = block * COLUMNS
        for row in range(rows):
            for column in range(some * COLUMNS):
                part[row, column] = head.bias[start + column]
        weight, units = head.weight[block : block + some], head.units[start : start + some * COLUMNS]
        multiply(x, weight, units, part, codes, code_units)
        count = min(some * COLUMNS, vocabulary - start)
        fill(part, count, some * COLUMNS)
        for row in range(rows):
            line, place = address(part) + np.uint64(row * STRIP * 4), gold[row] - start
            if 0 <= place < count:
                of_gold[row] = part[row, place]
            largest = gather(line, some * COLUMNS // LANES, masks, start, nothing, row, best, where)
            _add(part[row, :count], largest, sums[row])
    for row in range(rows):
        if len(table):
            of_gold[row] = _correct(x, row, table, head.bias, gold[row], of_gold[row], best[row], where[row], sums[row])
        predictions[row] = max(where[row, 0], 0)
        log_z = np.log(sums[row, 1]) if np.isfinite(dot(x, row, x, row)) else np.nan
        log_p_gold[row] = np.float64(of_gold[row]) - sums[row, 0] - log_z
        entropy[row] = log_z - sums[row, 2] / sums[row, 1]


@compiled
def _add(line: Floats, largest: np.float32, sums: Floats) -> None:
    """Add logits to the sums of others, and make both relative to the largest.

    :param largest: Of the line.
    :param sums: The maximum, z, s.
    """
    before, peak = sums[0], max(sums[0], np.float64(largest))
    if peak == -np.inf:
        return
    z, s, top = np.float32(0.0), np.float32(0.0), np.float32(peak)
    for column in range(len(line)):
        y = max(line[column] - top, np.float32(-87.0))  # where exp(y) y is 0; a token may be ruled out
        term = exp(y)
        z += term
        s += term * y
    if peak > before > -np.inf:
        change = before - peak
        sums[2] = np.exp(change) * (sums[2] + change * sums[1])
        sums[1] *= np.exp(change)
    sums[0], sums[1], sums[2] = peak, sums[1] + np.float64(z), sums[2] + np.float64(s)


@compiled
def _correct(
    x: Floats,
    row: int,
    table: Floats,
    bias: Floats,
    gold: int,
    of_gold: np.float32,
    best: Floats,
    where: Integers,
    sums: Floats,
) -> np.float32:
    """Compute the best logits and the gold one again: correct the sums, and put the best token first.

    :return: The logit of the gold token.
    """
    largest, chosen = np.float32(-np.inf), -1
    exact: np.float32 = dot(x, row, table, gold) + bias[gold]
    has_gold = False
    for place in range(len(best) + 1):
        token = where[place] if place < len(best) else gold
        has_gold |= place < len(best) and token == gold
        if token < 0 or (place == len(best) and has_gold):
            continue
        rounded = best[place] if place < len(best) else of_gold
        logit = dot(x, row, table, token) + bias[token]
        for sign, value in ((1.0, logit), (-1.0, rounded)):
            y = max(np.float64(value) - sums[0], -700.0)
            sums[1] += sign * np.exp(y)
            sums[2] += sign * np.exp(y) * y
        if logit > largest or (logit == largest and token < chosen):
            largest, chosen = logit, token
    best[0], where[0] = largest, chosen
    return exact
