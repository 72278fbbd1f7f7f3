"""Do a few pairs help? Test BLEU and chrF with memories to which nothing can be fitted.

Draws pairs from a corpus, makes a memory of them with :meth:`lacuna.combiners.Proximity.suited_to`, as ``lacuna adapt``
does with few pairs, and translates test sentences with the model alone and with the memory.

    python benchmarks/small_memories.py TRAIN TEST --languages de-en [--model MODEL] [--pairs 30 300] [--sentences 200]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from lacuna.combiners import Proximity
from lacuna.corpora import draw_pairs, read_corpus
from lacuna.datastore import build_store
from lacuna.evaluation import compare_runs, evaluate_systems
from lacuna.index import build_index
from lacuna.memory import FolderMemory
from lacuna.models import load_model
from lacuna.records import Languages
from lacuna.translator import System

ALONE = "model alone"


def main() -> None:
    """Print one JSON object per system."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--languages", required=True)
    parser.add_argument("--model")
    parser.add_argument("--pairs", type=int, nargs="+", default=[30, 300])
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    languages = Languages.parse(given.languages)
    model = load_model(given.model, languages=languages)
    test = draw_pairs(list(read_corpus(given.test, languages=languages)), given.sentences, given.seed)
    sources, references = [pair.source for pair in test], [pair.target for pair in test]
    tested = set(sources)
    train = [pair for pair in read_corpus(given.train, languages=languages) if pair.source not in tested]
    texts = {ALONE: [result.text for result in System(model).open().translate(sources)]}
    for number in given.pairs:
        with tempfile.TemporaryDirectory() as folder:
            store = build_store(model, draw_pairs(train, number, given.seed), Path(folder) / "store")
            memory = FolderMemory.of(store, "small", build_index(store).index)
            translator = System(model, [memory], Proximity.suited_to(store), exact_contexts=True).open()
            texts[f"{number} pairs"] = [result.text for result in translator.translate(sources)]
    gains = compare_runs(references, {name: [lines] for name, lines in texts.items()}, target_language=languages.target)
    for score in evaluate_systems(references, texts, target_language=languages.target):
        row: dict[str, object] = {
            "system": score.name,
            "BLEU": round(score.bleu.value, 2),
            "chrF": round(score.chrf.value, 2),
        }
        if score.name != ALONE:
            gain = gains[score.name][ALONE]
            row["gain"] = [round(part, 2) for part in (gain.bleu, gain.low, gain.high)]
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
