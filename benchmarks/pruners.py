"""Every pruning method on one domain: BLEU of the model alone, with the whole memory, and with each pruned one.

Usage: python benchmarks/pruners.py STORE DEV TEST --into FOLDER [--ratios 0.25 0.45] [--min-margin 8]

STORE must have its index and its margins. What is done stays in FOLDER and is not done again.
"""

from __future__ import annotations

from experiments import arguments, experiment_of, show
from lacuna.analysis.comparing import compare_pruners
from lacuna.pruning import AllKnown, Cluster, Known, Merge, Plac, Pruner, Random, Reverse
from lacuna.translator import open_memory


def methods(ratios: list[float], min_margin: int, k: int) -> dict[str, tuple[Pruner, float | None]]:
    """List the lines of the table."""
    pruners: list[Pruner] = [Plac(min_margin), Random(), Known(), Cluster(), Merge(k), Reverse(min_margin)]
    lines: dict[str, tuple[Pruner, float | None]] = {
        f"{pruner.name} {ratio:g}": (pruner, ratio) for ratio in ratios for pruner in pruners
    }
    return lines | {"all_known": (AllKnown(), None)}


def main() -> None:
    """Read the command line, compare, and print."""
    parser = arguments(__doc__, min_margin=8, dev_pairs=500)
    parser.add_argument("--ratios", type=float, nargs="+", default=[0.25, 0.45])
    parser.add_argument("--merge-k", type=int, default=16)
    args = parser.parse_args()
    pruners = methods(args.ratios, args.min_margin, args.merge_k)
    show(compare_pruners(experiment_of(args), open_memory(args.store), pruners), args.into)


if __name__ == "__main__":
    main()
