"""Every pruning method on one domain: BLEU of the model alone, with the whole memory, and with each pruned one.

Usage: python benchmarks/pruners.py STORE DEV TEST --into FOLDER [--ratios 0.25 0.45] [--min-margin 8]

STORE must have its index and its margins. What is done stays in FOLDER and is not done again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from lacuna.analysis.comparing import Compared, Experiment, compare_pruners
from lacuna.cli.render import BarProgress
from lacuna.corpora import read_corpus
from lacuna.files import write_json
from lacuna.index.faiss import use_threads
from lacuna.models import load_model
from lacuna.pruning import AllKnown, Cluster, Known, Merge, Plac, Pruner, Random, Reverse
from lacuna.records import Languages, SentencePair
from lacuna.translator import open_memory


def draw(corpus: str, languages: Languages, count: int, seed: int) -> list[SentencePair]:
    """Draw some pairs of a corpus, in its order."""
    pairs = list(read_corpus(corpus, languages=languages))
    chosen = np.sort(np.random.default_rng(seed).permutation(len(pairs))[:count])
    return [pairs[number] for number in chosen]


def methods(ratios: list[float], min_margin: int, k: int) -> dict[str, tuple[Pruner, float | None]]:
    """List the lines of the table."""
    pruners: list[Pruner] = [Plac(min_margin), Random(), Known(), Cluster(), Merge(k), Reverse(min_margin)]
    lines: dict[str, tuple[Pruner, float | None]] = {
        f"{pruner.name} {ratio:g}": (pruner, ratio) for ratio in ratios for pruner in pruners
    }
    return lines | {"all_known": (AllKnown(), None)}


def show(lines: list[Compared]) -> None:
    """Print the table; a star marks a significant decline from the first line, as in the paper."""
    whole = lines[0].entries
    print(f"{'system':22} {'entries':>9} {'dropped':>8} {'BLEU':>6} {'chrF':>6} {'p':>6}")
    for line in lines:
        dropped = f"{1 - line.entries / whole:8.2%}" if line.entries else " " * 8
        star = "*" if line.score.declined else " "
        p = "" if line.score.p_decline is None else f"{line.score.p_decline:6.3f}"
        scores = f"{line.score.bleu.value:6.2f}{star}{line.score.chrf.value:6.2f}"
        print(f"{line.name:22} {line.entries:9,} {dropped} {scores} {p}")
    print(f"*: BLEU significantly below the first line's (one-sided, p < 0.05). {lines[0].score.signature}")


def main() -> None:
    """Read the command line, compare, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("store")
    parser.add_argument("dev")
    parser.add_argument("test")
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--model")
    parser.add_argument("--languages", default="de-en")
    parser.add_argument("--ratios", type=float, nargs="+", default=[0.25, 0.45])
    parser.add_argument("--min-margin", type=int, default=8)
    parser.add_argument("--merge-k", type=int, default=16)
    parser.add_argument("--dev-pairs", type=int, default=500)
    parser.add_argument("--test-pairs", type=int, default=500)
    parser.add_argument("--kind", default="auto", help="index of the pruned stores; STORE's should be the same")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    use_threads(args.threads)
    languages = Languages.parse(args.languages)
    dev = draw(args.dev, languages, args.dev_pairs, args.seed)
    test = draw(args.test, languages, args.test_pairs, args.seed)
    experiment = Experiment(
        load_model(args.model, languages=languages), dev, test, args.into, args.kind, args.seed, BarProgress()
    )
    lines = compare_pruners(experiment, open_memory(args.store), methods(args.ratios, args.min_margin, args.merge_k))
    write_json(args.into / "table.json", [line.as_json() for line in lines])
    show(lines)


if __name__ == "__main__":
    main()
