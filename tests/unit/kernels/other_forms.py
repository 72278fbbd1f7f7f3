"""Products and next tokens of fixed numbers, and a translation: a program that other forms of the tiles run, too."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

PRECISIONS = ("float32", "int16", "int8")
SHAPES = ((1, 6, 5), (5, 64, 40), (8, 1030, 33), (19, 514, 70))  # rows, inputs, outputs


def run(folder: Path | None) -> dict[str, np.ndarray]:
    """Return all results by name.

    :param folder: Of a model to translate with; ``None`` for none.
    """
    from lacuna.kernels.compiled import find_next, pack, product

    rng, results = np.random.default_rng(11), {}
    for rows, inputs, outputs in SHAPES:
        x, weight = (rng.integers(-100, 100, shape).astype(np.float32) for shape in ((rows, inputs), (outputs, inputs)))
        bias = rng.standard_normal(outputs).astype(np.float32)
        for precision in PRECISIONS:
            # With this largest number units are powers of two, which change no digits, in whatever order they come.
            x[:, 0], weight[:, 1] = 2047.0, 127.0 if precision == "int8" else 2047.0
            found = product(x * np.float32(0.25), pack(weight, bias, precision))[:, :outputs]
            results[f"product {precision} {rows} {inputs} {outputs}"] = found
    x, weight = (rng.standard_normal(shape).astype(np.float32) for shape in ((7, 32), (1111, 32)))
    bias = rng.standard_normal(len(weight)).astype(np.float32)
    for precision in ("float32", "int8"):
        table = weight if precision == "int8" else weight[:0]
        tokens, logits, log_sums = np.empty((7, 10), np.int64), np.empty((7, 10), np.float32), np.empty(7)
        head = pack(weight, bias, precision)
        find_next(x, head, 0, len(weight), table, np.array([5]), tokens, logits, log_sums)
        results |= {f"tokens {precision}": tokens, f"logits {precision}": logits, f"sums {precision}": log_sums}
    return results if folder is None else results | translate(folder)


def translate(folder: Path) -> dict[str, np.ndarray]:
    """Return the tokens of translations with rounded weights."""
    from lacuna.decoding import BeamSettings, search
    from lacuna.models import load_model
    from lacuna.models.stepping import ModelScorer
    from unit.models.tiny_models import SOURCES

    model = load_model(folder, device="cpu")
    scorer = ModelScorer(model, engine="compiled", int8=True)
    found = search(scorer, model.encode_sources(SOURCES), BeamSettings(3, max_new_tokens=12))
    best = {f"translation {number}": np.array(each[0].tokens) for number, each in enumerate(found)}
    return best | {"scores": np.array([each[0].score for each in found])}


if __name__ == "__main__":
    path, *folders = sys.argv[1:]
    np.savez(path, **run(Path(folders[0]) if folders else None))  # type: ignore[arg-type]
