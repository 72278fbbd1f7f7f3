# ruff: noqa: ANN401 - numba and llvmlite have no types
"""Products with 8-bit weights at the shapes of a decoder step: a tile of our own against the kernels of torch.

    python benchmarks/int8_products.py [--rows 1 5 40 160] [--rounds 7]

One thread, milliseconds, best round. Rows are hypotheses in a step: sentences times beam width. Our tile multiplies
unsigned activations with signed weights in groups of four (``vpdpbusd``, AVX-512 VNNI), adds in int32, and keeps all
sums of up to 8 rows and 32 outputs in registers; it is generated with llvmlite, so that nothing has to be compiled at
installation. ``fbgemm`` and ``onednn`` are torch's dynamic quantization, which also rounds the activations and scales
the result; ours does neither here, which costs a pass over each row. Results of the tile are compared with NumPy.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

# Inputs and outputs: projection and feed-forward layer of OPUS-MT, and of the bundled model.
SHAPES = ((512, 59_520), (512, 2048), (256, 16_000), (256, 1024))
LANES, GROUP = 16, 4  # int32 sums in a vector, and products that go into each at once
COLUMNS = 2 * LANES  # outputs of a tile


def make_tile(rows: int) -> Any:
    """Return a function that multiplies some rows with one block of packed weights."""

    @intrinsic
    def tile(_: Any, inputs: Any, stride: Any, weight: Any, groups: Any, output: Any, output_stride: Any) -> Any:
        def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            generate_tile(builder, rows, *arguments)
            return context.get_dummy_value()

        address, count = types.uintp, types.intp
        return types.void(address, count, address, count, address, count), generate

    return tile


def generate_tile(b: Any, rows: int, inputs: Any, stride: Any, weight: Any, groups: Any, output: Any, out: Any) -> None:
    """Generate the code of a tile. Strides are in int32: a group of four inputs, or an output."""
    byte, lane, size = ir.IntType(8), ir.IntType(32), ir.IntType(64)
    sums, quads = ir.VectorType(lane, LANES), ir.VectorType(byte, LANES * GROUP)
    dot = cgutils.get_or_insert_function(
        b.module, ir.FunctionType(sums, [sums, quads, quads]), "llvm.x86.avx512.vpdpbusd.512"
    )
    source, packed, target = (
        b.inttoptr(address, kind.as_pointer()) for address, kind in ((inputs, lane), (weight, byte), (output, lane))
    )
    totals = [[cgutils.alloca_once_value(b, ir.Constant(sums, [0] * LANES)) for _ in range(2)] for _ in range(rows)]
    with cgutils.for_range(b, groups, intp=size) as loop:
        start = b.mul(loop.index, ir.Constant(size, COLUMNS * GROUP))
        weights = []
        for half in range(2):
            offset = b.add(start, ir.Constant(size, half * LANES * GROUP))
            weights.append(b.load(b.bitcast(b.gep(packed, [offset]), quads.as_pointer()), align=64))
        for row in range(rows):
            value = b.load(b.gep(source, [b.add(b.mul(ir.Constant(size, row), stride), loop.index)]), align=4)
            undefined = ir.Constant(sums, ir.Undefined)
            first = b.insert_element(undefined, value, ir.Constant(lane, 0))
            everywhere = b.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(lane, LANES), [0] * LANES))
            for half in range(2):
                total = b.call(dot, [b.load(totals[row][half]), b.bitcast(everywhere, quads), weights[half]])
                b.store(total, totals[row][half])
    for row in range(rows):
        for half in range(2):
            offset = b.add(b.mul(ir.Constant(size, row), out), ir.Constant(size, half * LANES))
            b.store(b.load(totals[row][half]), b.bitcast(b.gep(target, [offset]), sums.as_pointer()), align=4)


_one, _five, _eight = (make_tile(rows) for rows in (1, 5, 8))


@numba.njit(nogil=True)
def multiply(inputs: Any, packed: Any, output: Any) -> None:
    """Multiply rows with packed weights.

    :param inputs: uint8. # (rows, width)
    :param packed: See :func:`pack`.
    :param output: int32. # (rows, outputs)
    """
    rows, width = inputs.shape
    groups, stride = width // GROUP, output.shape[1]
    for block in range(packed.shape[0]):
        weight, row = packed.ctypes.data + block * groups * COLUMNS * GROUP, 0
        while row < rows:
            source = inputs.ctypes.data + row * width
            target = output.ctypes.data + 4 * (row * stride + block * COLUMNS)
            if rows - row >= 8:
                _eight(source, groups, weight, groups, target, stride)
                row += 8
            elif rows - row >= 5:
                _five(source, groups, weight, groups, target, stride)
                row += 5
            else:
                _one(source, groups, weight, groups, target, stride)
                row += 1


def pack(weight: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return weights (outputs, width) in the order in which a tile reads them, at an address divisible by 64."""
    outputs, width = weight.shape
    buffer = np.empty(weight.size + 64, np.int8)
    first = -buffer.ctypes.data % 64
    packed = buffer[first : first + weight.size].reshape(outputs // COLUMNS, width // GROUP, 2, LANES, GROUP)
    packed[:] = weight.reshape(outputs // COLUMNS, 2, LANES, width // GROUP, GROUP).transpose(0, 3, 1, 2, 4)
    return packed


def best_time(work: Callable[[], object], rounds: int) -> float:
    """Return milliseconds of the best of some rounds, after one that does not count."""
    work()
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return 1e3 * min(times)


def measure(width: int, outputs: int, rows: int, rounds: int) -> dict[str, float]:
    """Return milliseconds by kernel."""
    rng = np.random.default_rng(1)
    weight = rng.integers(-127, 128, (outputs, width), dtype=np.int8)
    inputs = rng.integers(0, 255, (rows, width), dtype=np.uint8)
    packed, output = pack(weight), np.empty((rows, outputs), np.int32)
    multiply(inputs, packed, output)
    some = slice(0, outputs, max(1, outputs // 512))
    if not np.array_equal(output[:, some], inputs.astype(np.int32) @ weight[some].T.astype(np.int32)):
        raise ValueError("the tile does not compute the product")
    vectors, matrix = torch.from_numpy(inputs).float(), torch.from_numpy(weight).float()
    half_vectors, half_matrix = vectors.bfloat16(), matrix.bfloat16()
    times = {
        "our tile": best_time(lambda: multiply(inputs, packed, output), rounds),
        "float32": best_time(lambda: torch.nn.functional.linear(vectors, matrix), rounds),
        "bfloat16": best_time(lambda: torch.nn.functional.linear(half_vectors, half_matrix), rounds),
    }
    for engine in ("fbgemm", "onednn"):
        torch.backends.quantized.engine = engine
        layers = torch.nn.Sequential(torch.nn.Linear(width, outputs))
        quantized = torch.ao.quantization.quantize_dynamic(layers, {torch.nn.Linear}, torch.qint8)
        times[engine] = best_time(lambda layers=quantized: layers(vectors), rounds)  # type: ignore[misc]
    return times


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 5, 40, 160])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    if not binding.get_host_cpu_features().get("avx512vnni"):
        raise SystemExit("this processor has no AVX-512 VNNI")
    warnings.simplefilter("ignore")  # torch announces that its quantization will move
    torch.set_num_threads(1)
    table = Table("width", "outputs", "rows", title="Milliseconds of one thread")
    for width, outputs in SHAPES:
        for rows in options.rows:
            with torch.inference_mode():
                times = measure(width, outputs, rows, options.rounds)
            if len(table.columns) == 3:
                for name in (*times, "our tile, GOPS"):
                    table.add_column(name, justify="right")
            speed = 2e-6 * rows * width * outputs / times["our tile"]
            cells = (f"{milliseconds:.3f}" for milliseconds in times.values())
            table.add_row(str(width), str(outputs), str(rows), *cells, f"{speed:,.0f}")
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
