"""Quality of the ranking by ``lacuna gaps``: BLEU of the first third compared with that of the last third.

The thirds have different sentences, so a permutation test is used: the p-value is the share of random assignments of
sentences to the thirds with a difference at least as large. BLEU is given for the model alone and with the memory.

Usage: python benchmarks/gaps.py STORE TEST [--combiner FOLDER] [--calibration FOLDER] [--model MODEL] [--count 300]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import islice

import faiss
import numpy as np
import torch
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from lacuna import Languages, System, load_combiner, load_model, open_memory, read_corpus
from lacuna.evaluation import bleu_of_sums
from lacuna.explanation import find_gaps
from lacuna.translator import load_calibration

ROUNDS = 10_000


def statistics(texts: Sequence[str], references: Sequence[str]) -> NDArray[np.float64]:
    """Return the BLEU statistics, one row per sentence."""
    extracted = BLEU()._extract_corpus_statistics(texts, [references])
    return np.array(extracted, np.float64)


def permutation_p(first: NDArray[np.float64], last: NDArray[np.float64], seed: int = 1) -> float:
    """Return the one-sided p-value of a permutation test that the first third has a lower BLEU than the last."""
    both = np.concatenate([first, last])
    total = both.sum(0)
    [low, high] = bleu_of_sums(np.stack([first.sum(0), last.sum(0)]))
    rng = np.random.default_rng(seed)
    drawn = np.array([both[rng.permutation(len(both))[: len(first)]].sum(0) for _ in range(ROUNDS)])
    parted = bleu_of_sums(total - drawn) - bleu_of_sums(drawn)
    return float((np.count_nonzero(parted >= high - low) + 1) / (ROUNDS + 1))


def main() -> None:
    """Rank the sentences, translate them, and compare the thirds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("test")
    parser.add_argument("--combiner")
    parser.add_argument("--calibration")
    parser.add_argument("--model")
    parser.add_argument("--languages", default="de-en")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    faiss.omp_set_num_threads(options.threads)
    pairs = list(islice(read_corpus(options.test, languages=Languages.parse(options.languages)), options.count))
    model = load_model(options.model)
    combiner = load_combiner(options.combiner) if options.combiner else None
    calibration = load_calibration(options.calibration) if options.calibration else None
    translator = System(model, [open_memory(options.store)], combiner, calibration=calibration).open()
    gaps = find_gaps(translator, [pair.source for pair in pairs])
    references = [pairs[gap.line - 1].target for gap in gaps]
    alone = [one.text for one in System(model).open().translate([gap.source for gap in gaps])]
    third = len(gaps) // 3
    print(f"{len(gaps)} sentences, {third} in a third; mean gap {gaps[0].gap:.3f} to {gaps[-1].gap:.3f}")
    for name, texts in (("model alone", alone), ("with the memory", [gap.translation for gap in gaps])):
        rows = statistics(texts, references)
        first, last = rows[:third], rows[-third:]
        low, high, all_ = bleu_of_sums(np.stack([first.sum(0), last.sum(0), rows.sum(0)]))
        print(
            f"{name}: BLEU {all_:.2f}; least known third {low:.2f}, best known third {high:.2f}, "
            f"p {permutation_p(first, last):.4f} ({ROUNDS:,} permutations)"
        )


if __name__ == "__main__":
    main()
