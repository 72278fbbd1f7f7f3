"""Every combiner on one domain, over the whole memory and one pruned by PLAC: the paper's tables of variants and of k.

Usage: python benchmarks/combiners.py STORE DEV TEST --into FOLDER [--min-margin 4] [--ratio 0.25] [--ks 4 8 16 32]

STORE must have its index and its margins. What is done stays in FOLDER and is not done again.
"""

from __future__ import annotations

from experiments import arguments, experiment_of, show
from lacuna.analysis.comparing import System, compare_systems, prune_once
from lacuna.pruning import Plac
from lacuna.translator import Memory, open_memory
from lacuna.translator.fitting import FitAdaptive, FitKster, Fitter, FitVanilla


def lines(whole: Memory, pruned: Memory, ks: list[int]) -> list[System]:
    """List the systems; the first, with which all are compared, is adaptive over the whole memory."""
    usual = 8 if 8 in ks else ks[0]
    adaptive = {k: FitAdaptive(k=k) for k in ks}
    both: dict[str, Fitter] = {"vanilla": FitVanilla(), f"adaptive k {usual}": adaptive[usual], "kster": FitKster()}
    systems = [
        System(f"{name}, {size}", memory, fitter)
        for size, memory in (("whole", whole), ("pruned", pruned))
        for name, fitter in both.items()
    ]
    others = [System(f"adaptive k {k}, whole", whole, adaptive[k]) for k in ks if k != usual]
    return [systems.pop(1), System("model alone"), *systems, *others]


def main() -> None:
    """Read the command line, compare, and print."""
    parser = arguments(__doc__, min_margin=4, dev_pairs=1000)
    parser.add_argument("--ratio", type=float, default=0.25)
    parser.add_argument("--ks", type=int, nargs="+", default=[4, 8, 16, 32])
    args = parser.parse_args()
    experiment, whole = experiment_of(args), open_memory(args.store)
    pruned = prune_once(experiment, whole, "plac", Plac(args.min_margin), args.ratio)
    show(compare_systems(experiment, lines(whole, pruned, args.ks)), args.into)


if __name__ == "__main__":
    main()
