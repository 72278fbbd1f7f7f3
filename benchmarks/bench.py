"""Translation speed of transformers, CTranslate2 and Lacuna, with and without a memory, side by side.

    python benchmarks/bench.py [--model FOLDER] [--test CORPUS] [--memory STORE --combiner FOLDER]
                               [--pruned STORE --pruned-combiner FOLDER] [--batch 1 8 32] [--sentences 96] [--threads 2]

The systems take turns in every round, so that other load on the machine affects all of them; the best round counts.
Speed is target tokens per second; compare the ratios. With ``--test``, the table shows BLEU next to speed. A combiner
with a gate (``lacuna fit --gate``) is measured with and without it. Ratios of 8-bit systems are relative to the plain
8-bit one. CTranslate2 runs with all threads on one batch, and with one batch per thread. ``--equal N`` compares our
decoder with that of transformers on N sentences instead, in float32 and with 8-bit weights.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from lacuna.corpora import read_corpus
from lacuna.decoding import BeamSettings, decode_all
from lacuna.evaluation import evaluate_systems
from lacuna.index import measure_recall
from lacuna.memory import open_memory
from lacuna.models import Model, load_model
from lacuna.models.stepping import ModelScorer
from lacuna.workers import use_threads
from systems import TimedSystem, make_systems

PARTS = {
    "de": [
        "Der Hund schläft.",
        "Klicken Sie auf die Schaltfläche, um das Fenster zu schließen.",
        "Die Kommission legt dem Parlament jedes Jahr einen Bericht vor.",
        "Wir haben gestern lange über das Wetter gesprochen.",
        "Nehmen Sie das Arzneimittel immer genau nach Absprache mit Ihrem Arzt ein.",
    ],
    "fr": [
        "Le chien dort.",
        "Cliquez sur le bouton pour fermer la fenêtre.",
        "La Commission présente chaque année un rapport au Parlement.",
        "Hier, nous avons longuement parlé du temps.",
        "Prenez toujours ce médicament en suivant exactement les indications de votre médecin.",
    ],
}


def make_up(language: str, count: int) -> list[str]:
    """Combine one to four parts at random."""
    draw = random.Random(1)
    parts = PARTS.get(language, PARTS["de"])
    return [" ".join(draw.sample(parts, draw.choice((1, 1, 2, 3, 4)))) for _ in range(count)]


def read_texts(test: str | None, wanted: int, model: Model) -> tuple[list[str], list[str]]:
    """Return sources and, if there is a corpus, references; without a corpus, sources are made up."""
    if not test:
        return make_up(model.languages.source if model.languages else "de", wanted), []
    pairs = list(islice(read_corpus(test, languages=model.languages), 4 * wanted))
    fitting = [
        p for p, ids in zip(pairs, model.encode_sources([p.source for p in pairs]), strict=True) if len(ids) < 150
    ]
    return [pair.source for pair in fitting[:wanted]], [pair.target for pair in fitting[:wanted]]


def check_equal(model: Model, texts: Sequence[str]) -> None:
    """Count the sentences on which our decoder and that of transformers agree."""
    sources, settings = model.encode_sources(texts), BeamSettings()
    generic = decode_all(ModelScorer(model, engine="transformers"), sources, settings)
    for int8 in (False, True):
        ours = decode_all(ModelScorer(model, int8=int8), sources, settings)
        pairs = [(a[0], b[0]) for a, b in zip(ours, generic, strict=True)]
        apart = [abs(a.score - b.score) for a, b in pairs]
        content = {
            "precision": "int8" if int8 else "float32",
            "sentences": len(texts),
            "equal": sum(a.tokens == b.tokens for a, b in pairs),
            "difference of scores": {
                "mean": float(f"{sum(apart) / len(apart):.2g}"),
                "largest": float(f"{max(apart):.2g}"),
            },
        }
        print(json.dumps(content))


def measure(systems: list[TimedSystem], texts: Sequence[str], batch: int, rounds: int) -> dict[str, dict[str, Any]]:
    """Translate with every system, in turns."""
    best: dict[str, dict[str, Any]] = {}
    for _ in range(rounds):
        for system in systems:
            system.clock.seconds.clear()
            started = time.perf_counter()
            found, tokens = system.run(texts, batch)
            seconds = time.perf_counter() - started
            if system.name not in best or seconds < best[system.name]["seconds"]:
                best[system.name] = {
                    "seconds": seconds,
                    "speed": tokens / seconds,
                    "sentences": len(texts) / seconds,
                    "shares": system.shares(seconds, len(texts), batch),
                    "texts": found,
                    "note": system.note(),
                }
    return best


def compare(best: dict[str, dict[str, Any]], references: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Score each system; for a gate or 8 bits, also return the p value of a decline."""
    if not references:
        return {}
    scores = {}
    for name in best:
        without = name.removesuffix(", translated again").removesuffix(" int8").removesuffix(",").removesuffix(", gate")
        pair = {one: best[one]["texts"] for one in dict.fromkeys((without, name)) if one in best}
        score = evaluate_systems(references, pair)[-1]
        sure = "" if len(pair) < 2 else f"p of a decline {score.p_decline:.3f}"
        scores[name] = (f"{score.bleu.value:.2f}", sure)
    return scores


def show(batch: int, best: dict[str, dict[str, Any]], references: Sequence[str]) -> None:
    """Print one table."""
    scores = compare(best, references)
    table = Table(title=f"Batch {batch}; ratios to the plain model, and parts of the time")
    parts = ("model", "search", "mixing", "beam")
    for column in ("system", "tokens/s", "ratio", "lines/s", "ratio", *parts, "BLEU", ""):
        table.add_column(column, justify="left" if column in ("system", "") else "right", no_wrap=True)
    for name, each in best.items():
        plain = best["lacuna int8" if "int8" in name and "CTranslate2" not in name else "lacuna"]
        speeds = []
        for kind in ("speed", "sentences"):
            speeds += [f"{each[kind]:,.1f}", f"{each[kind] / plain[kind]:.2f}"]
        shares = (f"{each['shares'][part]:.0%}" if each["shares"].get(part) else "" for part in parts)
        bleu, sure = scores.get(name, ("", ""))
        table.add_row(name, *speeds, *shares, bleu, "; ".join(filter(None, (each["note"], sure))))
    Console(width=160).print(table)


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "test", "memory", "combiner", "pruned", "pruned-combiner"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--sentences", type=int, default=96, help="at batch 32; fewer at smaller ones, 32 or more")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lacuna-only", action="store_true", help="skip transformers and CTranslate2")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--equal", type=int, help="only compare the two decoders, on this number of sentences")
    args = parser.parse_args()
    use_threads(args.threads)
    model = load_model(args.model)
    texts, references = read_texts(args.test, args.equal or args.sentences, model)
    if args.equal:
        return check_equal(model, texts)
    with tempfile.TemporaryDirectory() as folder:
        systems = make_systems(args, model, Path(folder))
        for batch in args.batch:
            count = min(args.sentences, max(32, args.sentences * batch // 32))
            show(batch, measure(systems, texts[:count], batch, args.rounds), references[:count])
    for store in filter(None, (args.memory, args.pruned)):
        memory = open_memory(store)
        recall = measure_recall(memory.store, memory.index, 8).results[0].recall
        print(f"{store}: {memory.store.entries:,} entries, {memory.index.kind}, recall at 8: {recall:.3f}")
    print(f"peak memory of all together: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")


if __name__ == "__main__":
    main()
