"""What 8-bit weights change: translations, scores, and what a memory finds.

    python benchmarks/precision.py --test CORPUS [--model FOLDER] [--memory STORE] [--sentences 2000] [--threads 2]

Translates a test set in float32 and with 8-bit weights, and prints the share of equal translations, BLEU and chrF with
the p value of a decline (paired bootstrap), and how much the log-probability of a token changes where translations are
equal. With a memory, both systems search it with the safe combiner, and the neighbors of both keys are compared at each
token of the references.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import torch

from bench import read_texts
from lacuna.decoding import BeamSettings, decode_all, pool_for
from lacuna.evaluation import evaluate_systems
from lacuna.memory import Memory, open_memory
from lacuna.models import Model, load_model
from lacuna.models.compiled_decoder import CompiledModel
from lacuna.models.stepping import ModelScorer
from lacuna.translator import System
from lacuna.workers import use_threads

K = 8


def token_changes(model: Model, texts: list[str]) -> dict[str, float]:
    """Return the changes of log-probabilities where both precisions find the same translation."""
    sources = [source[: model.max_length] for source in model.encode_sources(texts)]
    results = [
        decode_all(ModelScorer(model, int8=int8), sources, BeamSettings(), pool=pool_for(len(sources), 32, 1))
        for int8 in (False, True)
    ]
    same = [(a[0], b[0]) for a, b in zip(*results, strict=True) if a[0].tokens == b[0].tokens]
    changes = np.concatenate([np.subtract(b.log_probs, a.log_probs) for a, b in same])
    return {
        "equal translations": round(len(same) / len(texts), 4),
        "mean change of a log-probability": float(f"{changes.mean():.2g}"),
        "mean absolute change": float(f"{np.abs(changes).mean():.2g}"),
    }


def neighbor_changes(model: Model, memory: Memory, sources: list[str], targets: list[str]) -> dict[str, float]:
    """Compare the keys of both precisions, and their neighbors, at each token of the references."""
    pairs = zip(model.encode_sources(sources), model.encode_targets(targets), strict=True)
    fitting = [(source, target) for source, target in pairs if model.fits(source, target)]
    inputs = [[*model.start_ids, *target[:-1]] for _, target in fitting]
    found = []
    for precision in ("float32", "int8"):
        compiled = CompiledModel.of(model, precision)
        assert compiled is not None
        keys = np.concatenate(
            [compiled.force([source], [read]) for (source, _), read in zip(fitting, inputs, strict=True)]
        )
        found.append((keys, memory.search(keys, K)))
    (exact, near), (rounded, others) = found
    moved = ((rounded - exact) ** 2).sum(1)
    shared = [len(np.intersect1d(a, b)) / K for a, b in zip(near.ids, others.ids, strict=True)]
    return {
        "tokens": len(exact),
        "neighbors in common": round(float(np.mean(shared)), 4),
        "same nearest neighbor": round(float((near.ids[:, 0] == others.ids[:, 0]).mean()), 4),
        "key moved, of its squared length, 99th percentile": float(
            f"{np.quantile(moved / (exact**2).sum(1), 0.99):.2g}"
        ),
        "key moved, of the squared distance to its nearest neighbor, median": float(
            f"{np.median(moved / np.maximum(near.distances[:, 0], 1e-9)):.2g}"
        ),
    }


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--test", required=True)
    parser.add_argument("--model")
    parser.add_argument("--memory")
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    args = parser.parse_args()
    use_threads(args.threads)
    model = load_model(args.model)
    texts, references = read_texts(args.test, args.sentences, model)
    content: dict[str, object] = {"sentences": len(texts), **token_changes(model, texts)}
    memories = [open_memory(args.memory)] if args.memory else []
    systems = {
        name: [result.text for result in System(model, memories, int8=int8).open().translate(texts)]
        for name, int8 in (("float32", False), ("int8", True))
    }
    for score in evaluate_systems(references, systems):
        content[score.name] = {"BLEU": round(score.bleu.value, 2), "chrF": round(score.chrf.value, 2)}
        if score.p_decline is not None:
            content["p of a decline"] = round(score.p_decline, 3)
    content["equal texts"] = round(float(np.mean([a == b for a, b in zip(*systems.values(), strict=True)])), 4)
    for memory in memories:
        content["memory"] = neighbor_changes(model, memory, texts[:400], references[:400])
    print(json.dumps(content, indent=1))


if __name__ == "__main__":
    main()
