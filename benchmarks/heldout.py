"""BLEU of a model on held-out sets, as reported in docs/bundled-model.md.

Usage: python benchmarks/heldout.py SET.tsv... [--model MODEL] [--languages de-en]
"""

from __future__ import annotations

import argparse
import time

from lacuna import Languages, System, evaluate_systems, load_model, read_corpus


def main() -> None:
    """Translate each set with beam 5 and print its scores and signature."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--model")
    parser.add_argument("--languages", default="de-en")
    options = parser.parse_args()
    languages = Languages.parse(options.languages)
    translator = System(load_model(options.model, languages=languages)).open()
    for path in options.sets:
        pairs = list(read_corpus(path, languages=languages))
        started = time.perf_counter()
        results = translator.translate([pair.source for pair in pairs])
        seconds = time.perf_counter() - started
        texts = [result.text for result in results]
        [score] = evaluate_systems([pair.target for pair in pairs], {"model": texts}, target_language=languages.target)
        speed = sum(result.tokens for result in results) / seconds
        print(f"{path}: {len(pairs):,} sentences, BLEU {score.bleu.value:.2f}, chrF {score.chrf.value:.2f}, ", end="")
        print(f"{speed:,.0f} tokens/s, {score.signature}", flush=True)


if __name__ == "__main__":
    main()
