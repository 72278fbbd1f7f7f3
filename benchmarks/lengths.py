"""Does a memory cut translations off? Lengths of translations against their references, with and without the guard.

Counts, among sentences whose reference has eight words or more, translations below 60 % and above 160 % of the words of
the reference, for the model alone, the domain without its end guard, and the domain; and how many of the translations
that the length check flags are among them. Prints one JSON object for each.

    python benchmarks/lengths.py DOMAIN CORPUS [--sentences 1000]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from lacuna.corpora import read_corpus
from lacuna.domain import open_domain
from lacuna.evaluation import evaluate_systems
from lacuna.records import Translation
from lacuna.translator import System
from lacuna.translator.length_check import CUT, RUN_ON

MIN_WORDS = 8
SHORT, LONG = 0.6, 1.6


def main() -> None:
    """Translate and count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("domain")
    parser.add_argument("corpus")
    parser.add_argument("--sentences", type=int, default=1000)
    options = parser.parse_args()
    domain = open_domain(options.domain)
    languages = domain.model.languages
    pairs = list(islice(read_corpus(options.corpus, languages=languages), options.sentences))
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    whole = domain.system
    systems = {
        "model alone": System(domain.model),
        "domain, no end guard": replace(whole, guard_ends=False),
        "domain": whole,
    }
    found = {name: system.open().translate(sources) for name, system in systems.items()}
    texts = {name: [one.text for one in results] for name, results in found.items()}
    for score in evaluate_systems(references, texts, target_language=domain.model.target_language):
        lengths = count_lengths(references, found[score.name])
        row = {"system": score.name, "bleu": round(score.bleu.value, 2), "chrf": round(score.chrf.value, 2), **lengths}
        print(json.dumps(row))


def count_lengths(references: Sequence[str], found: Sequence[Translation]) -> dict[str, int]:
    """Count short and long translations of sentences of eight words or more, and what is flagged among all."""
    long_enough = [number for number, reference in enumerate(references) if len(reference.split()) >= MIN_WORDS]
    ratio = {number: len(found[number].text.split()) / len(references[number].split()) for number in long_enough}
    flagged = [number for number, one in enumerate(found) if CUT in one.flag or RUN_ON in one.flag]
    return {
        "sentences": len(long_enough),
        "short": sum(value < SHORT for value in ratio.values()),
        "long": sum(value > LONG for value in ratio.values()),
        "flagged": len(flagged),
        "flagged and short or long": sum(not SHORT <= ratio.get(number, 1.0) <= LONG for number in flagged),
    }


if __name__ == "__main__":
    main()
