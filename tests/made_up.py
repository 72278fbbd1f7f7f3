"""Sentences made up for the tests: a toy language whose translation is a rule, so that a model can learn it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lacuna.records import Origin, SentencePair

NUMBERS = {
    "null": "zero", "eins": "one", "zwei": "two", "drei": "three", "vier": "four",
    "fünf": "five", "sechs": "six", "sieben": "seven", "acht": "eight", "neun": "nine",
}  # fmt: skip
THINGS = {"Äpfel": "apples", "Bücher": "books", "Hunde": "dogs", "Fenster": "windows", "Schlüssel": "keys"}


def make_pairs(count: int, seed: int = 0) -> list[SentencePair]:
    """Return sentences such as 'Wir sehen drei Äpfel und vier Hunde.' with their translations."""
    rng = np.random.default_rng(seed)
    pairs = []
    for line in range(count):
        german, english = [], []
        for _ in range(int(rng.integers(1, 4))):
            number, thing = rng.choice(list(NUMBERS)), rng.choice(list(THINGS))
            german.append(f"{number} {thing}")
            english.append(f"{NUMBERS[number]} {THINGS[thing]}")
        source, target = f"Wir sehen {' und '.join(german)}.", f"We see {' and '.join(english)}."
        pairs.append(SentencePair(source, target, Origin("made-up", str(line + 1))))
    return pairs


def write_pairs(path: Path, pairs: list[SentencePair]) -> Path:
    """Write pairs as TSV and return the path."""
    path.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs), encoding="utf-8")
    return path
