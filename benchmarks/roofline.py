# ruff: noqa: ANN401 - numba and llvmlite have no types
"""How near the output projection comes to the limits of the processor: arithmetic in each precision, and memory.

    python benchmarks/roofline.py [--model FOLDER] [--rows 1 5 40 160] [--rounds 9]

The peaks are measured on this machine, with one thread: loops of independent multiplications and additions on
registers, and a sum over an array that no cache holds. ``products`` are the projection alone; ``next tokens`` is what
decoding calls: it also finds the most probable tokens and the sum of all probabilities. Shapes and weights are those of
the model. Rows are hypotheses in a step: sentences times beam width.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from rich.console import Console
from rich.table import Table

from lacuna.kernels import compiled as kernels
from lacuna.kernels.compiling import processor_features
from lacuna.kernels.tiles import LANES
from lacuna.models import load_model

# Operations (multiplications and additions) of one instruction for each lane, the instruction, and what it needs.
INSTRUCTIONS = {
    "float32": (2, "vfmadd231ps $3, $2, $0", ("fma",)),
    "bfloat16": (4, "vdpbf16ps $3, $2, $0", ("avx512bf16",)),
    "int8": (4, "vpdpwssd $3, $2, $0", ("avx512vnni",)),
}
SUMS = 24  # registers that are added to: enough to hide the latency
LOOPS = 100_000


def make_peak(precision: str) -> Callable[[int], float]:
    """Return a function that runs one instruction on independent registers, some number of times."""
    _, text, _ = INSTRUCTIONS[precision]
    element = ir.FloatType() if precision != "int8" else ir.IntType(32)
    vector = ir.VectorType(element, LANES)

    @intrinsic
    def loop(_: Any, count: Any) -> Any:
        def generate(context: Any, b: Any, _: Any, arguments: Any) -> Any:
            one = ir.Constant(vector, [1.0 if precision != "int8" else 1] * LANES)
            sums = [cgutils.alloca_once_value(b, one) for _ in range(SUMS)]  # type: ignore[no-untyped-call]
            with cgutils.for_range(b, arguments[0], intp=ir.IntType(64)):
                for total in sums:
                    value = b.load(total)
                    code = ir.InlineAsm(ir.FunctionType(vector, [vector] * 3), text, "=v,0,v,v")
                    value = b.call(code, [value, one, one])
                    b.store(value, total)
            result = b.extract_element(b.load(sums[-1]), ir.Constant(ir.IntType(32), 0))
            return b.sitofp(result, ir.FloatType()) if precision == "int8" else result

        return types.float32(types.intp), generate

    @numba.njit(nogil=True)
    def run(count: int) -> float:
        return float(loop(count))

    made: Callable[[int], float] = run
    return made


@numba.njit(nogil=True, fastmath=True)
def read(numbers: Any) -> float:
    """Add up an array."""
    total = np.float32(0.0)
    for place in range(len(numbers)):
        total += numbers[place]
    return float(total)


def best_time(work: Callable[[], object], rounds: int) -> float:
    """Return the seconds of the best of some rounds, after one that does not count."""
    work()
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 5, 40, 160])
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    memory = np.ones(1 << 26, np.float32)
    bandwidth = memory.nbytes / best_time(lambda: read(memory), args.rounds)
    weight = load_model(args.model).projection.weight.detach().numpy()
    outputs, width = weight.shape
    console = Console(width=120)
    table = Table("precision", "rows", title=f"Projection of {width} x {outputs:,}, one thread")
    for column in ("products, ms", "GOPS", "of the peak", "weights, GB/s", "of the memory", "next tokens, ms"):
        table.add_column(column, justify="right")
    print(f"memory: {bandwidth / 1e9:.1f} GB/s")
    for precision, (operations, _, needed) in INSTRUCTIONS.items():
        if not processor_features().issuperset(needed):
            print(f"{precision}: this processor has no instruction for it")
            continue
        loop = make_peak(precision)
        peak = LOOPS * SUMS * LANES * operations / best_time(lambda loop=loop: loop(LOOPS), args.rounds)  # type: ignore[misc]
        print(f"{precision}: {peak / 1e9:,.0f} GOPS")
        head = kernels.pack(weight, None, precision)
        exact = weight if precision != "float32" else weight[:0]
        for rows in args.rows:
            x = np.random.default_rng(1).standard_normal((rows, width), np.float32)
            outs = np.empty((rows, 10), np.int64), np.empty((rows, 10), np.float32), np.empty(rows)
            product = best_time(lambda x=x, head=head: kernels.product(x, head), args.rounds)  # type: ignore[misc]
            search = best_time(
                lambda x=x, head=head, exact=exact, outs=outs: kernels.find_next(  # type: ignore[misc]
                    x, head, 0, outputs, exact, np.empty(0, np.int64), *outs
                ),
                args.rounds,
            )
            speed, flow = 2 * rows * outputs * width / product, head.weight.nbytes / product
            table.add_row(
                precision,
                str(rows),
                f"{1e3 * product:.3f}",
                f"{speed / 1e9:,.0f}",
                f"{speed / peak:.0%}",
                f"{flow / 1e9:.1f}",
                f"{flow / bandwidth:.0%}",
                f"{1e3 * search:.3f}",
            )
    console.print(table)


if __name__ == "__main__":
    main()
