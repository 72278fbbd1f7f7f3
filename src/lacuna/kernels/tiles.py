# ruff: noqa: ANN401 - numba and llvmlite have no types
"""Tiles: products of a few rows with one block of weights, whose sums stay in the registers of the processor.

A tile reads each weight once, and multiplies it with up to 8 rows. There is one for each number of rows and each
precision of the weights:

- ``float32``: one fused multiplication and addition for each weight.
- ``bfloat16``: pairs of 16-bit floats, added up in float32; only on processors with AVX-512 BF16.
- ``int16`` and ``int8``: pairs of 16-bit integers, added up in 32 bits; 8-bit weights are widened when they are read.
  Sums are exact (see :mod:`lacuna.kernels.products`), so that all forms of a tile give the same sums: one
  instruction on processors with AVX-512 VNNI, two on others, and plain arithmetic without AVX-512 and AVX2.

Generated with llvmlite, because no compiler turns loops into these instructions reliably. Knows addresses only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from lacuna.kernels.compiling import processor_features

binding.initialize_native_asmparser()  # for the instructions that are written as such

_FEATURES = processor_features()
_WIDE = "avx512bw" in _FEATURES
LANES = 16 if _WIDE else 8
MAX_ROWS = 8 if _WIDE else 6  # two sums for each row, and the weights, fill the registers
COLUMNS = 2 * LANES  # outputs of a block of weights
HAS_BFLOAT16 = _WIDE and "avx512bf16" in _FEATURES

_SIZE, _LANE, _SHORT, _BYTE, _FLOAT = ir.IntType(64), ir.IntType(32), ir.IntType(16), ir.IntType(8), ir.FloatType()
_FLOATS, _INTEGERS = ir.VectorType(_FLOAT, LANES), ir.VectorType(_LANE, LANES)
_PAIRS = ir.VectorType(_SHORT, 2 * LANES)


def make_tile(kind: str, rows: int) -> Any:
    """Return a function that adds the product of some rows and one block of weights to the output.

    Its parameters are addresses and strides: the inputs (the row after the next is ``stride`` groups farther), the
    weights, the number of groups of inputs, the units of the rows and of the outputs (integers only), and the output. A
    group is one float32, or a pair of 16-bit numbers.
    """

    @intrinsic
    def tile(
        _: Any,
        inputs: Any,
        stride: Any,
        weight: Any,
        groups: Any,
        row_units: Any,
        output_units: Any,
        output: Any,
        output_stride: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            _Tile(builder, kind, rows).generate(*arguments)
            return context.get_dummy_value()

        address, count = types.uintp, types.intp
        return types.void(address, count, address, count, address, address, address, count), generate

    return tile


class _Tile:
    """Generates the code of one tile."""

    def __init__(self, builder: Any, kind: str, rows: int) -> None:
        self._b, self._kind, self._rows = builder, kind, rows
        self._is_integer = kind.startswith("int")
        self._step = {"float32": self._fuse, "bfloat16": self._dot_floats}.get(kind, self._dot_integers)

    def generate(
        self,
        inputs: Any,
        stride: Any,
        weight: Any,
        groups: Any,
        row_units: Any,
        output_units: Any,
        output: Any,
        out: Any,
    ) -> None:
        b, cells = self._b, [(row, half) for half in range(2) for row in range(self._rows)]
        element = {"float32": _FLOAT, "int8": _BYTE}.get(self._kind, _SHORT)
        size = 1 if self._kind == "float32" else 2  # numbers in a group
        read = b.inttoptr(inputs, (_FLOAT if size == 1 else _LANE).as_pointer())
        packed = b.inttoptr(weight, element.as_pointer())
        written = b.inttoptr(output, _FLOAT.as_pointer())
        places = {
            (row, half): self._vector(written, b.add(b.mul(_count(row), out), _count(half * LANES)), _FLOATS)
            for row, half in cells
        }
        sums = {}
        for cell in cells:
            first = ir.Constant(_INTEGERS, [0] * LANES) if self._is_integer else b.load(places[cell], align=4)
            sums[cell] = cgutils.alloca_once_value(b, first)  # type: ignore[no-untyped-call]
        with cgutils.for_range(b, groups, intp=_SIZE) as loop:
            start = b.mul(loop.index, _count(COLUMNS * size))
            weights = []
            for half in range(2):
                place = self._vector(
                    packed, b.add(start, _count(half * LANES * size)), ir.VectorType(element, LANES * size)
                )
                loaded = b.load(place, align=1)
                weights.append(b.sext(loaded, _PAIRS) if element is _BYTE else loaded)
            for row in range(self._rows):
                group = b.load(b.gep(read, [b.add(b.mul(_count(row), stride), loop.index)]), align=4)
                repeated = self._repeat(group, _FLOATS if size == 1 else _INTEGERS)
                for half in range(2):
                    total = sums[row, half]
                    b.store(self._step(b.load(total), repeated, weights[half]), total)
        for row, half in cells:
            total = b.load(sums[row, half])
            if self._is_integer:
                total = self._scaled(total, row_units, row, output_units, half, b.load(places[row, half], align=4))
            b.store(total, places[row, half], align=4)

    def _vector(self, pointer: Any, offset: Any, kind: Any) -> Any:
        return self._b.bitcast(self._b.gep(pointer, [offset]), kind.as_pointer())

    def _repeat(self, value: Any, kind: Any) -> Any:
        undefined = ir.Constant(kind, ir.Undefined)
        first = self._b.insert_element(undefined, value, ir.Constant(_LANE, 0))
        return self._b.shuffle_vector(first, undefined, ir.Constant(_INTEGERS, [0] * LANES))

    def _fuse(self, total: Any, inputs: Any, weights: Any) -> Any:
        product = self._b.fmul(weights, inputs, flags=["contract"])
        return self._b.fadd(product, total, flags=["contract"])

    def _dot_floats(self, total: Any, inputs: Any, weights: Any) -> Any:
        return self._instruction("vdpbf16ps $3, $2, $0", total, inputs, weights)

    def _dot_integers(self, total: Any, inputs: Any, weights: Any) -> Any:
        b = self._b
        if "avx512vnni" in _FEATURES and _WIDE:
            return self._instruction("vpdpwssd $3, $2, $0", total, inputs, weights)
        pairs = b.bitcast(inputs, _PAIRS)
        name = "llvm.x86.avx512.pmaddw.d.512" if _WIDE else "llvm.x86.avx2.pmadd.wd"
        if _WIDE or "avx2" in _FEATURES:
            multiply = cgutils.get_or_insert_function(b.module, ir.FunctionType(_INTEGERS, [_PAIRS, _PAIRS]), name)  # type: ignore[no-untyped-call]
            return b.add(total, b.call(multiply, [pairs, weights]))
        for first in range(2):
            chosen = ir.Constant(_INTEGERS, list(range(first, 2 * LANES, 2)))
            parts = (b.sext(b.shuffle_vector(each, each, chosen), _INTEGERS) for each in (pairs, weights))
            total = b.add(total, b.mul(*parts))
        return total

    def _instruction(self, text: str, total: Any, inputs: Any, weights: Any) -> Any:
        function = ir.FunctionType(total.type, [total.type, _PAIRS, _PAIRS])
        code = ir.InlineAsm(function, text, "=v,0,v,v")
        return self._b.call(code, [total, self._b.bitcast(inputs, _PAIRS), weights])

    def _scaled(self, total: Any, row_units: Any, row: int, output_units: Any, half: int, before: Any) -> Any:
        """Turn integer sums into floats, and add them to what was in the output before."""
        b = self._b
        units = b.inttoptr(row_units, _FLOAT.as_pointer())
        unit = self._repeat(b.load(b.gep(units, [_count(row)]), align=4), _FLOATS)
        own = self._vector(b.inttoptr(output_units, _FLOAT.as_pointer()), _count(half * LANES), _FLOATS)
        product = b.fmul(b.fmul(b.sitofp(total, _FLOATS), unit), b.load(own, align=4))
        return b.fadd(before, product)


def _count(number: int) -> Any:
    return ir.Constant(_SIZE, number)


def make_tiles(kind: str) -> tuple[Callable[..., None], ...]:
    """Return the tiles for 1, 2, ..., 8 rows; a processor with few registers only uses the first ones."""
    return tuple(make_tile(kind, rows) for rows in range(1, 9))
