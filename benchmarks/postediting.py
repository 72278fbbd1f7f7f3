"""Does a memory that learns from corrections help? Walk through a document as a post-editor does.

Each sentence is translated; then its reference is added to the memory, as a post-editor's correction would be. This is
compared with the model alone and with a memory that does not learn. Each pair is also translated once more right after
it was added: a correction that does not show then was in vain. This is done with and without the rule that exact
contexts prevail.

    python benchmarks/postediting.py DOCUMENT --languages de-en [--model MODEL] [--memory STORE] [--combiner FOLDER]
        [--sentences 300]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import fmean, median

from lacuna.combiners import Combiner, Proximity, load_combiner
from lacuna.corpora import read_corpus
from lacuna.evaluation import compare_runs, evaluate_systems
from lacuna.memory import Memory, memory_at, open_memory
from lacuna.models import Model, load_model
from lacuna.records import Languages, SentencePair
from lacuna.translator import System

LEARNED = "learned"


def walk(
    model: Model,
    pairs: list[SentencePair],
    fixed: list[Memory],
    combiner: Combiner | None,
    exact: bool,
    folder: Path,
) -> tuple[list[str], list[str], list[float]]:
    """Return the translations, the translations right after each correction, and the seconds of each correction.

    :param combiner: Without one, settings that suit the corrections so far.
    """
    first, again, seconds = [], [], []
    memories, learned = fixed, memory_at(folder / LEARNED)

    def translate(text: str) -> str:
        suited = combiner or (Proximity.suited_to(memories[-1]) if memories else None)
        return System(model, memories, suited, exact_contexts=exact).open().translate([text])[0].text

    for pair in pairs:
        first.append(translate(pair.source))
        started = time.monotonic()
        learned.add([pair], model, cleaning=None)
        memories = [*fixed, open_memory(folder / LEARNED)]
        seconds.append(time.monotonic() - started)
        again.append(translate(pair.source))
    return first, again, seconds


def fitting(model: Model, pairs: list[SentencePair]) -> list[SentencePair]:
    """Leave out pairs that are too long for the model."""
    sources = model.encode_sources([pair.source for pair in pairs])
    targets = model.encode_targets([pair.target for pair in pairs])
    return [pair for pair, source, target in zip(pairs, sources, targets, strict=True) if model.fits(source, target)]


def main() -> None:
    """Print one JSON object per system."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("document")
    parser.add_argument("--languages", required=True)
    parser.add_argument("--model")
    parser.add_argument("--memory", type=Path, help="a memory to start from; otherwise it is empty")
    parser.add_argument("--combiner", type=Path, help="a combiner fitted with that memory")
    parser.add_argument("--sentences", type=int, default=300)
    given = parser.parse_args()
    if bool(given.memory) != bool(given.combiner):
        parser.error("--memory and --combiner go together")
    languages = Languages.parse(given.languages)
    model = load_model(given.model, languages=languages)
    pairs = fitting(model, list(read_corpus(given.document, languages=languages)))[: given.sentences]
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    fixed = [open_memory(given.memory)] if given.memory else []
    combiner = load_combiner(given.combiner) if given.combiner else None

    def show(name: str, texts: list[str], baseline: list[str], **more: object) -> None:
        score = evaluate_systems(references, {name: texts}, target_language=languages.target)[0]
        systems = {"baseline": [baseline], name: [texts]}
        gain = compare_runs(references, systems, target_language=languages.target)[name]["baseline"]
        row = {"system": name, "BLEU": round(score.bleu.value, 2), "chrF": round(score.chrf.value, 2)}
        row |= {"gain": [round(part, 2) for part in (gain.bleu, gain.low, gain.high)], **more}
        print(json.dumps(row), flush=True)

    alone = [result.text for result in System(model).open().translate(sources)]
    show("model alone", alone, alone)
    baseline = alone
    if fixed:
        baseline = [result.text for result in System(model, fixed, combiner).open().translate(sources)]
        show("memory that does not learn", baseline, alone)
    for exact in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            first, again, seconds = walk(model, pairs, fixed, combiner, exact, Path(folder))
        seen = fmean(text == reference for text, reference in zip(again, references, strict=True))
        times = {"milliseconds": round(1000 * median(seconds)), "seen at once": round(seen, 3)}
        show(f"learning{', exact contexts' if exact else ''}", first, baseline, **times)


if __name__ == "__main__":
    main()
