"""Every combiner on one domain, over the whole memory and one pruned by PLAC: the paper's tables of variants and of k.

Usage: python benchmarks/combiners.py STORE DEV TEST --into FOLDER [--min-margin 4] [--ratio 0.25] [--ks 4 8 16 32]

STORE must have its index and its margins. What is done stays in FOLDER and is not done again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from lacuna.analysis.comparing import Experiment, System, compare_systems, prune_once
from lacuna.cli.render import BarProgress
from lacuna.files import write_json
from lacuna.index.faiss import use_threads
from lacuna.models import load_model
from lacuna.pruning import Plac
from lacuna.records import Languages
from lacuna.translator import Memory, open_memory
from lacuna.translator.fitting import FitAdaptive, FitKster, Fitter, FitVanilla
from pruners import draw, show


def lines(memories: dict[str, Memory], ks: list[int]) -> list[System]:
    """List the systems; the first, with which all are compared, is adaptive over the whole memory."""
    fitters: dict[str, Fitter] = {f"adaptive k {k}": FitAdaptive(k=k) for k in ks}
    fitters |= {"vanilla": FitVanilla(), "kster": FitKster()}
    systems = [
        System(f"{name}, {size}", memory, fitter)
        for size, memory in memories.items()
        for name, fitter in fitters.items()
    ]
    first = [system.name for system in systems].index(f"adaptive k {8 if 8 in ks else ks[0]}, whole")
    return [systems.pop(first), System("model alone"), *systems]


def main() -> None:
    """Read the command line, compare, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("store")
    parser.add_argument("dev")
    parser.add_argument("test")
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--model")
    parser.add_argument("--languages", default="de-en")
    parser.add_argument("--min-margin", type=int, default=4)
    parser.add_argument("--ratio", type=float, default=0.25)
    parser.add_argument("--ks", type=int, nargs="+", default=[4, 8, 16, 32])
    parser.add_argument("--dev-pairs", type=int, default=1000)
    parser.add_argument("--test-pairs", type=int, default=500)
    parser.add_argument("--kind", default="auto", help="index of the pruned store; STORE's should be the same")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    use_threads(args.threads)
    languages = Languages.parse(args.languages)
    dev = draw(args.dev, languages, args.dev_pairs, args.seed)
    test = draw(args.test, languages, args.test_pairs, args.seed)
    model = load_model(args.model, languages=languages)
    experiment = Experiment(model, dev, test, args.into, args.kind, args.seed, BarProgress())
    whole = open_memory(args.store)
    pruned = prune_once(experiment, whole, "plac", Plac(args.min_margin), args.ratio)
    compared = compare_systems(experiment, lines({"whole": whole, "pruned": pruned}, args.ks))
    write_json(args.into / "table.json", [line.as_json() for line in compared])
    show(compared)


if __name__ == "__main__":
    main()
