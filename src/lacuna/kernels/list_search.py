# ruff: noqa: ANN401 - numba and llvmlite have no types
"""Search of an inverted file of 4-bit codes for one CPU thread: everything from queries to neighbors in one call.

A decoder step has few queries, so the calls around a search cost as much as the search itself, and each of them hands
the GIL over to another thread. Here a query is rotated, compared with the centroids of all lists, and with the codes in
the nearest lists; the best candidates are re-ranked by half-precision keys. The codes are those of faiss (blocks of 32,
as its "fast scan" reads them), so an index file serves both. Needs AVX2 and F16C. Knows arrays only: nothing of models
or indexes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from lacuna.kernels.compiling import compiled, processor_features
from lacuna.kernels.products import Floats, Integers, PackedLinear, product
from lacuna.kernels.products import pack as pack_linear
from lacuna.kernels.tiles import COLUMNS

# Their type stubs are incomplete.
_CODE: Any = cgutils
_TYPES: Any = types

SUPPORTED = {"avx2", "f16c", "fma"} <= processor_features()
_WIDE = "avx512bw" in processor_features()

_BISECTIONS = 24  # at most, to find a bound for scores
BLOCK = 32  # codes in a block of an inverted list
CODEBOOK = 16  # centroids of a sub-quantizer
TABLES = 4 if _WIDE else 2  # lookup tables in a register; the number of sub-quantizers must be a multiple of it
_HALF_LANES, _HALF_SUMS = 16, 2  # half-precision numbers that are read at once, and independent sums
STEP = _HALF_LANES * _HALF_SUMS  # the dimension of keys must be a multiple of it

_BYTE, _SHORT, _INT, _LONG, _FLOAT = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()


def _intrinsic(make: Callable[..., Any]) -> Any:
    """Make a function for kernels from one that generates its code."""
    return intrinsic(make)


def _constant(kind: Any, number: int) -> Any:
    return ir.Constant(kind, [number] * kind.count if isinstance(kind, ir.VectorType) else number)


def _load(b: Any, address: Any, offset: Any, kind: Any) -> Any:
    """Load a vector from any address; the offset is in bytes."""
    return b.load(b.inttoptr(b.add(address, offset), kind.as_pointer()), align=1)


def _repeated(b: Any, value: Any, lanes: int) -> Any:
    vector = ir.VectorType(value.type, lanes)
    undefined = ir.Constant(vector, ir.Undefined)
    first = b.insert_element(undefined, value, ir.Constant(_INT, 0))
    return b.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_INT, lanes), [0] * lanes))


def _halved(b: Any, vector: Any, join: Callable[[Any, Any], Any]) -> Any:
    """Reduce a vector to one number: its halves are joined, until one is left."""
    lanes = vector.type.count
    while lanes > 1:
        lanes //= 2
        kind = ir.VectorType(_INT, lanes)
        halves = (ir.Constant(kind, list(range(first, first + lanes))) for first in (0, lanes))
        vector = join(*(b.shuffle_vector(vector, vector, half) for half in halves))
    return b.extract_element(vector, _constant(_INT, 0))


def _smaller(b: Any, one: Any, other: Any) -> Any:
    return b.select(b.fcmp_ordered("<", one, other), one, other)


def _larger(b: Any, one: Any, other: Any) -> Any:
    return b.select(b.fcmp_ordered(">", one, other), one, other)


@_intrinsic
def _scan_blocks(_: Any, codes: Any, blocks: Any, tables: Any, registers: Any, output: Any) -> Any:
    """Sum up the table entries of each code, and write one uint16 for each.

    A block has the codes of 32 keys. For each sub-quantizer there are 16 bytes: the lower halves of the even ones
    belong to keys 0 to 7, those of the odd ones to keys 8 to 15, the upper halves to keys 16 to 31.

    :param tables: Bytes: (sub-quantizers, 16).
    :param registers: Sub-quantizers, in groups of ``TABLES``.
    """

    def generate(context: Any, b: Any, _: Any, arguments: Any) -> Any:
        codes, blocks, tables, registers, output = arguments
        length = 16 * TABLES
        table, pairs = ir.VectorType(_BYTE, length), ir.VectorType(_SHORT, length // 2)
        name = "llvm.x86.avx512.pshuf.b.512" if _WIDE else "llvm.x86.avx2.pshuf.b"
        look_up = _CODE.get_or_insert_function(b.module, ir.FunctionType(table, [table, table]), name)
        low, eight = _constant(table, 15), _constant(pairs, 8)
        with _CODE.for_range(b, blocks) as block:
            block_size = b.mul(registers, _constant(_LONG, length))
            start = b.add(codes, b.mul(block.index, block_size))
            # Sums of the pairs of bytes as one number, and of the odd bytes alone.
            sums = [_CODE.alloca_once_value(b, _constant(pairs, 0)) for _ in range(4)]
            for total in sums:
                b.store(_constant(pairs, 0), total)
            with _CODE.for_range(b, registers) as loop:
                offset = b.mul(loop.index, _constant(_LONG, length))
                packed, entries = _load(b, start, offset, table), _load(b, tables, offset, table)
                upper = b.bitcast(b.lshr(b.bitcast(packed, pairs), _constant(pairs, 4)), table)
                for half, nibbles in enumerate((b.and_(packed, low), b.and_(upper, low))):
                    found = b.bitcast(b.call(look_up, [entries, nibbles]), pairs)
                    both, odd = sums[2 * half : 2 * half + 2]
                    b.store(b.add(b.load(both), found), both)
                    b.store(b.add(b.load(odd), b.lshr(found, eight)), odd)
            place = b.add(output, b.mul(block.index, _constant(_LONG, 2 * BLOCK)))
            for half in range(2):
                both, odd = (b.load(total) for total in sums[2 * half : 2 * half + 2])
                for number, total in enumerate((b.sub(both, b.shl(odd, eight)), odd)):
                    target = b.add(place, _constant(_LONG, 16 * (2 * half + number)))
                    b.store(_sum_of_parts(b, total), b.inttoptr(target, ir.VectorType(_SHORT, 8).as_pointer()), align=1)
        return context.get_dummy_value()

    size, count = types.uintp, types.intp
    return types.void(size, count, size, count, size), generate


def _sum_of_parts(b: Any, vector: Any) -> Any:
    """Add the parts of 8 numbers."""
    parts = [
        b.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(_INT, 8), list(range(start, start + 8))))
        for start in range(0, vector.type.count, 8)
    ]
    while len(parts) > 1:
        parts = [b.add(one, other) for one, other in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


@_intrinsic
def _within(_: Any, sums: Any, bound: Any) -> Any:
    """Return one bit for each of the 32 numbers from an address on: whether it is at most the bound."""

    def generate(_: Any, b: Any, __: Any, arguments: Any) -> Any:
        address, bound = arguments
        vector = _load(b, address, _constant(_LONG, 0), ir.VectorType(_SHORT, BLOCK))
        mask = b.icmp_unsigned("<=", vector, _repeated(b, bound, BLOCK))
        return b.bitcast(mask, _INT)

    return types.uint32(types.uintp, types.uint16), generate


@_intrinsic
def _reaching(_: Any, scores: Any, bound: Any) -> Any:
    """Return one bit for each of the ``COLUMNS`` numbers from an address on: whether it is at least the bound."""

    def generate(_: Any, b: Any, __: Any, arguments: Any) -> Any:
        address, bound = arguments
        vector = _load(b, address, _constant(_LONG, 0), ir.VectorType(_FLOAT, COLUMNS))
        mask = b.bitcast(b.fcmp_ordered(">=", vector, _repeated(b, bound, COLUMNS)), ir.IntType(COLUMNS))
        return mask if COLUMNS == 32 else b.zext(mask, _INT)

    return types.uint32(types.uintp, types.float32), generate


@_intrinsic
def _range_of_best(_: Any, scores: Any, blocks: Any) -> Any:
    """Return the smallest and the largest of the best scores of all blocks."""

    def generate(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
        scores, blocks = arguments
        low, high = (_CODE.alloca_once(b, _FLOAT) for _ in range(2))
        b.store(ir.Constant(_FLOAT, float("inf")), low)
        b.store(ir.Constant(_FLOAT, float("-inf")), high)
        with _CODE.for_range(b, blocks) as loop:
            start = b.mul(loop.index, _constant(_LONG, 4 * COLUMNS))
            vector = _load(b, scores, start, ir.VectorType(_FLOAT, COLUMNS))
            best = _halved(b, vector, lambda one, other: _larger(b, one, other))
            b.store(_smaller(b, best, b.load(low)), low)
            b.store(_larger(b, best, b.load(high)), high)
        return context.make_tuple(b, signature.return_type, [b.load(low), b.load(high)])

    return _TYPES.UniTuple(types.float32, 2)(types.uintp, types.intp), generate


@_intrinsic
def _compare_with_book(_: Any, query: Any, book: Any, numbers: Any, output: Any) -> Any:
    """Write by how much each code of a codebook is farther from a query than the nearest; return the largest of these.

    :param book: (numbers, 16).
    """

    def generate(_: Any, b: Any, __: Any, arguments: Any) -> Any:
        query, book, numbers, output = arguments
        vector = ir.VectorType(_FLOAT, CODEBOOK)
        zeros = ir.Constant(vector, [0.0] * CODEBOOK)
        total = _CODE.alloca_once(b, vector)
        b.store(zeros, total)
        with _CODE.for_range(b, numbers) as loop:
            value = _repeated(b, _load(b, query, b.mul(loop.index, _constant(_LONG, 4)), _FLOAT), CODEBOOK)
            codes = _load(b, book, b.mul(loop.index, _constant(_LONG, 4 * CODEBOOK)), vector)
            difference = b.fsub(value, codes)
            square = b.fmul(difference, difference, flags=["contract"])
            b.store(b.fadd(square, b.load(total), flags=["contract"]), total)
        distances = b.load(total)
        nearest = _halved(b, distances, lambda one, other: _smaller(b, one, other))
        farther = b.fsub(distances, _repeated(b, nearest, CODEBOOK))
        b.store(farther, b.inttoptr(output, vector.as_pointer()), align=1)
        return _halved(b, farther, lambda one, other: _larger(b, one, other))

    return types.float32(types.uintp, types.uintp, types.intp, types.uintp), generate


@_intrinsic
def _count_ones(_: Any, bits: Any) -> Any:
    def generate(_: Any, b: Any, __: Any, arguments: Any) -> Any:
        return b.ctpop(arguments[0])

    return types.uint32(types.uint32), generate


@_intrinsic
def _first_one(_: Any, bits: Any) -> Any:
    """Return the position of the lowest bit that is set."""

    def generate(_: Any, b: Any, __: Any, arguments: Any) -> Any:
        return b.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint32(types.uint32), generate


@_intrinsic
def _prefetch(_: Any, address: Any) -> Any:
    """Ask for the memory at an address before it is needed."""

    def generate(context: Any, b: Any, _: Any, arguments: Any) -> Any:
        pointer = _BYTE.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, _INT, _INT, _INT])
        fetch = _CODE.get_or_insert_function(b.module, kind, "llvm.prefetch.p0i8")
        b.call(fetch, [b.inttoptr(arguments[0], pointer), *(_constant(_INT, number) for number in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(types.uintp), generate


@_intrinsic
def _read_integer(_: Any, address: Any) -> Any:
    def generate(_: Any, b: Any, __: Any, arguments: Any) -> Any:
        return _load(b, arguments[0], _constant(_LONG, 0), _LONG)

    return types.int64(types.uintp), generate


@_intrinsic
def _half_distance(_: Any, query: Any, key: Any, steps: Any) -> Any:
    """Return the squared distance of a float32 query and a half-precision key of ``steps`` times ``STEP`` numbers."""

    def generate(_: Any, b: Any, __: Any, arguments: Any) -> Any:
        query, key, steps = arguments
        wide, narrow = ir.VectorType(_FLOAT, _HALF_LANES), ir.VectorType(ir.HalfType(), _HALF_LANES)
        zeros = ir.Constant(wide, [0.0] * _HALF_LANES)
        sums = [_CODE.alloca_once_value(b, zeros) for _ in range(_HALF_SUMS)]
        for total in sums:
            b.store(zeros, total)
        with _CODE.for_range(b, steps) as loop:
            for number, total in enumerate(sums):
                place = b.add(b.mul(loop.index, _constant(_LONG, STEP)), _constant(_LONG, number * _HALF_LANES))
                exact = _load(b, query, b.mul(place, _constant(_LONG, 4)), wide)
                stored = b.fpext(_load(b, key, b.mul(place, _constant(_LONG, 2)), narrow), wide)
                difference = b.fsub(exact, stored)
                square = b.fmul(difference, difference, flags=["contract"])
                b.store(b.fadd(square, b.load(total), flags=["contract"]), total)
        parts = [b.load(total) for total in sums]
        while len(parts) > 1:
            parts = [b.fadd(one, other) for one, other in zip(parts[::2], parts[1::2], strict=True)]
        return _halved(b, parts[0], b.fadd)

    return types.float32(types.uintp, types.uintp, types.intp), generate


class PackedFile(NamedTuple):
    """An inverted file of 4-bit codes, with half-precision keys.

    :param mean: Subtracted from queries: (dimension,).
    :param rotation: Maps centered queries to the space of centroids and codes.
    :param centroids: Maps these to q.c - |c|^2 / 2 for each list, larger for nearer ones.
    :param codebooks: (sub-quantizers, numbers in each, 16).
    :param sizes: Number of keys in each list.
    :param codes: Address of the codes of each list.
    :param ids: Address of the row numbers of each list, int64.
    :param keys: Address of the centered half-precision keys.
    :param first_blocks: Number of the first block of each list, if all blocks are counted in the order of the lists.
    :param kept: For each block, one bit for each of its keys that may be found; empty if all may be.
    """

    mean: Floats
    rotation: PackedLinear
    centroids: PackedLinear
    codebooks: Floats
    sizes: Integers
    codes: NDArray[np.uint64]
    ids: NDArray[np.uint64]
    keys: np.uint64
    first_blocks: Integers
    kept: NDArray[np.uint32]


def pack(weight: Floats, bias: Floats) -> PackedLinear:
    """Pack weights for :func:`search`, (outputs, inputs) and (outputs,); outputs that fill up a block never win."""
    packed = pack_linear(weight, bias)
    packed.bias[len(bias) :] = -np.inf
    return packed


@compiled
def mark_kept(file: PackedFile, keep: NDArray[np.bool_], kept: NDArray[np.uint32]) -> None:
    """Write ``PackedFile.kept``.

    :param keep: Whether a row may be found: (rows,).
    :param kept: Output: (blocks,).
    """
    for number in range(len(file.sizes)):
        for first in range(0, file.sizes[number], BLOCK):
            bits = np.uint32(0)
            for offset in range(min(BLOCK, file.sizes[number] - first)):
                if keep[_read_integer(file.ids[number] + np.uint64(8 * (first + offset)))]:
                    bits |= np.uint32(1) << np.uint32(offset)
            kept[file.first_blocks[number] + first // BLOCK] = bits


@compiled
def _score_bound(address: np.uint64, blocks: int, wanted: int) -> np.float32:
    """Return a number that at least ``wanted`` scores reach, and not many more."""
    if wanted > blocks:
        return np.float32(-np.inf)
    bound, high = _range_of_best(address, blocks)  # the best score of every block reaches the bound
    for _ in range(_BISECTIONS):
        middle = np.float32(0.5) * (bound + high)
        reached = np.int64(0)
        for block in range(blocks):
            reached += np.int64(_count_ones(_reaching(address + np.uint64(4 * COLUMNS * block), middle)))
        if reached < wanted:
            high = middle
        else:
            bound = middle
            if reached <= 2 * wanted:
                break
    return np.float32(bound)


@compiled
def _nearest_lists(scores: Floats, count: int, best: Floats, lists: Integers) -> None:
    """Find the lists with the largest scores, largest first; of equal ones, the first.

    :param scores: Followed by minus infinity until the last block is full.
    """
    address, blocks, wanted, found = np.uint64(scores.ctypes.data), -(-count // COLUMNS), len(lists), 0
    bound = _score_bound(address, blocks, wanted)
    for place in range(wanted):
        best[place], lists[place] = np.float32(-np.inf), -1
    for block in range(blocks):
        bits = _reaching(address + np.uint64(4 * COLUMNS * block), bound)
        while bits:
            number = block * COLUMNS + np.int64(_first_one(bits))
            bits &= bits - np.uint32(1)
            if number < count:
                place = min(found, wanted)
                while place > 0 and scores[number] > best[place - 1]:
                    if place < wanted:
                        best[place], lists[place] = best[place - 1], lists[place - 1]
                    place -= 1
                if place < wanted:
                    best[place], lists[place] = scores[number], number
                found += 1


@compiled
def _fill_tables(query: Floats, codebooks: Floats, exact: Floats, tables: NDArray[np.uint8]) -> None:
    """Round the distances of a query from all codes to bytes, on one scale.

    Only differences matter within a codebook, so each table starts at 0.

    :param exact: Buffer: (codebooks * 16,).
    :param tables: Output: (codebooks * 16,).
    """
    books, numbers = codebooks.shape[0], codebooks.shape[1]
    places = np.uint64(query.ctypes.data), np.uint64(codebooks.ctypes.data), np.uint64(exact.ctypes.data)
    span = np.float32(0.0)
    for book in range(books):
        value, codes = places[0] + np.uint64(4 * book * numbers), places[1] + np.uint64(4 * CODEBOOK * book * numbers)
        span = max(span, _compare_with_book(value, codes, numbers, places[2] + np.uint64(4 * CODEBOOK * book)))
    # Sums must fit into 16 bits.
    top = min(255, 65535 // books)
    scale = np.float32(top) / span if span > 0 else np.float32(0.0)
    for place in range(len(tables)):
        tables[place] = np.uint8(np.int32(exact[place] * scale + np.float32(0.5)))


@compiled
def _bound(sums: NDArray[np.uint16], blocks: int, wanted: int) -> int:
    """Return the smallest number that at least ``wanted`` of the sums do not exceed."""
    address = np.uint64(sums.ctypes.data)
    low, high = 0, 65535
    while low < high:
        middle = (low + high) // 2
        count = np.int64(0)
        for block in range(blocks):
            count += np.int64(_count_ones(_within(address + np.uint64(2 * BLOCK * block), np.uint16(middle))))
        if count >= wanted:
            high = middle
        else:
            low = middle + 1
    return low


@compiled
def search(queries: Floats, probes: int, candidates: int, file: PackedFile, distances: Floats, ids: Integers) -> None:
    """Find the nearest of the re-ranked candidates of each query, nearest first, ties by id.

    :param probes: Lists that are read for each query.
    :param candidates: Keys that are re-ranked for each query; of those with equal codes, the first in the lists.
    :param distances: Output, infinity where there is no neighbor: (queries, k).
    :param ids: Output, -1 where there is no neighbor: (queries, k).
    """
    width = queries.shape[1]
    centered = np.empty(queries.shape, np.float32)
    for row in range(len(queries)):
        for column in range(width):
            centered[row, column] = queries[row, column] - file.mean[column]
    rotated = product(centered, file.rotation)
    scores = product(rotated, file.centroids)
    best, lists = np.empty(probes, np.float32), np.empty(probes, np.int64)
    exact = np.empty(len(file.codebooks) * CODEBOOK, np.float32)
    tables = np.empty(len(file.codebooks) * CODEBOOK, np.uint8)
    chosen = np.empty(candidates, np.int64)
    longest = 0
    for number in range(len(file.sizes)):
        longest = max(longest, file.sizes[number])
    sums = np.empty((probes * -(-longest // BLOCK), BLOCK), np.uint16)
    for row in range(len(queries)):
        _nearest_lists(scores[row], len(file.sizes), best, lists)
        _fill_tables(rotated[row], file.codebooks, exact, tables)
        blocks = _scan(file, lists, tables, sums)
        found = _choose(file, lists, sums, blocks, chosen)
        _rerank(centered[row], file.keys, chosen[:found], distances[row], ids[row])


@compiled
def _scan(file: PackedFile, lists: Integers, tables: NDArray[np.uint8], sums: NDArray[np.uint16]) -> int:
    """Write the sums of all keys in some lists, block after block; 65535 where there is no key that may be found."""
    blocks = 0
    for place in range(len(lists)):
        size = file.sizes[lists[place]] if lists[place] >= 0 else 0
        count = -(-size // BLOCK)
        if count:
            output = np.uint64(sums.ctypes.data) + np.uint64(2 * BLOCK * blocks)
            registers = len(tables) // CODEBOOK // TABLES
            _scan_blocks(file.codes[lists[place]], count, np.uint64(tables.ctypes.data), registers, output)
            if len(file.kept):
                for block in range(count):
                    dropped = ~file.kept[file.first_blocks[lists[place]] + block]
                    while dropped:
                        sums[blocks + block, np.int64(_first_one(dropped))] = 65535
                        dropped &= dropped - np.uint32(1)
            blocks += count
            for empty in range(size - (count - 1) * BLOCK, BLOCK):
                sums[blocks - 1, empty] = 65535
    return blocks


@compiled
def _choose(file: PackedFile, lists: Integers, sums: NDArray[np.uint16], blocks: int, chosen: Integers) -> int:
    """Write the ids of the keys with the smallest sums; return how many there are."""
    bound = _bound(sums, blocks, len(chosen))
    below = np.int64(0)  # those below the bound are fewer than wanted; those at the bound fill up the rest
    for block in range(blocks):
        if bound:
            bits = _within(np.uint64(sums.ctypes.data) + np.uint64(2 * BLOCK * block), np.uint16(bound - 1))
            below += np.int64(_count_ones(bits))
    equal, found, block = len(chosen) - below, 0, 0
    for place in range(len(lists)):
        size = file.sizes[lists[place]] if lists[place] >= 0 else 0
        for first in range(0, size, BLOCK):
            bits = _within(np.uint64(sums.ctypes.data) + np.uint64(2 * BLOCK * block), np.uint16(bound))
            if len(file.kept):  # if there are too few keys, the bound is 65535, which all others have too
                bits &= file.kept[file.first_blocks[lists[place]] + first // BLOCK]
            while bits:
                offset = np.int64(_first_one(bits))
                bits &= bits - np.uint32(1)
                if first + offset < size:
                    is_equal = sums[block, offset] == bound
                    if not is_equal or equal > 0:
                        equal -= 1 if is_equal else 0
                        chosen[found] = _read_integer(file.ids[lists[place]] + np.uint64(8 * (first + offset)))
                        found += 1
            block += 1
    return found


@compiled
def _rerank(query: Floats, keys: np.uint64, chosen: Integers, distances: Floats, ids: Integers) -> None:
    """Write the nearest of the chosen keys."""
    k, size = len(ids), 2 * len(query)
    for place in range(k):
        distances[place], ids[place] = np.float32(np.inf), -1
    address = np.uint64(query.ctypes.data)
    ahead = 8
    for number in range(min(ahead, len(chosen))):
        for line in range(0, size, 64):
            _prefetch(keys + np.uint64(chosen[number] * size + line))
    for number in range(len(chosen)):
        if number + ahead < len(chosen):
            for line in range(0, size, 64):
                _prefetch(keys + np.uint64(chosen[number + ahead] * size + line))
        entry = chosen[number]
        distance = _half_distance(address, keys + np.uint64(entry * size), len(query) // STEP)
        place = k
        while place > 0 and (
            distance < distances[place - 1]
            or (distance == distances[place - 1] and (entry < ids[place - 1] or ids[place - 1] < 0))
        ):
            if place < k:
                distances[place], ids[place] = distances[place - 1], ids[place - 1]
            place -= 1
        if place < k:
            distances[place], ids[place] = distance, entry
