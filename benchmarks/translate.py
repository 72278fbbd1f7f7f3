"""How fast beam search is: plain, against transformers' own ``generate``; and with a memory, against plain.

Run ``python benchmarks/translate.py [--model FOLDER] [--memory STORE]``. The sides take turns, so that whatever else
the machine does meets all alike; the ratios are what counts, not the tokens per second.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from lacuna.combiners import Vanilla
from lacuna.decoding import BeamSettings, decode_all
from lacuna.index.faiss import use_threads
from lacuna.models import Model, load_model
from lacuna.models.stepping import ModelScorer
from lacuna.translator import Translator, open_memory

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
    """Put one to four parts together, in ever other ways."""
    draw = random.Random(1)
    parts = PARTS.get(language, PARTS["de"])
    return [" ".join(draw.sample(parts, draw.choice((1, 1, 2, 3, 4)))) for _ in range(count)]


def with_generate(
    model: Model, sources: Sequence[list[int]], batch_size: int, settings: BeamSettings
) -> list[list[int]]:
    """Search with transformers, in the same batches of like length."""
    order = sorted(range(len(sources)), key=lambda n: -len(sources[n]))
    generation = model._generation(settings.beam, settings.length_penalty, settings.max_new_tokens)
    found: list[list[int]] = [[] for _ in sources]
    with torch.inference_mode():
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            outputs = model._generate_batch([sources[n] for n in chosen], generation)
            for number, output in zip(chosen, outputs, strict=True):
                ended = model.eos_id in output
                found[number] = output[: output.index(model.eos_id) + 1] if ended else output
    return found


def timed(work: Callable[[], list[list[int]]]) -> tuple[float, list[list[int]]]:
    """Give the seconds a search took, and what it found."""
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def compare(model: Model, sources: Sequence[list[int]], batch_size: int, rounds: int) -> None:
    """Print tokens per second of both, their ratio, and on how many sentences they agree."""
    settings = BeamSettings()
    scorer = ModelScorer(model)
    works = (
        lambda: with_generate(model, sources, batch_size, settings),
        lambda: [list(best[0].tokens) for best in decode_all(scorer, sources, settings, batch_size=batch_size)],
    )
    times: list[list[float]] = [[], []]
    results: list[list[list[int]]] = [[], []]
    for _ in range(rounds):
        for side, work in enumerate(works):
            seconds, results[side] = timed(work)
            times[side].append(seconds)
    tokens = sum(map(len, results[1]))
    theirs, ours = (min(side) for side in times)
    agree = sum(a == b for a, b in zip(*results, strict=True))
    print(
        f"batch {batch_size:3d}: generate {tokens / theirs:7.1f} tokens/s, lacuna {tokens / ours:7.1f} tokens/s, "
        f"{theirs / ours:.2f} times as fast; {agree} of {len(sources)} translations alike"
    )


def compare_memory(translator: Translator, plain: Translator, texts: Sequence[str], rounds: int) -> None:
    """Print tokens per second with and without the memory at batch 32, and how often weight 0 equals plain."""
    speeds: dict[str, float] = {}
    for _ in range(rounds):
        for name, side in (("plain", plain), ("memory", translator)):
            start = time.perf_counter()
            tokens = sum(result.tokens for result in side.translate(texts))
            speeds[name] = max(speeds.get(name, 0.0), tokens / (time.perf_counter() - start))
    store, index = translator.memories[0].store, translator.memories[0].index
    print(
        f"batch  32: plain {speeds['plain']:.1f} tokens/s, with {store.entries:,} entries ({index.kind}) and "
        f"k {translator.combiner.k} {speeds['memory']:.1f} tokens/s, {speeds['memory'] / speeds['plain']:.2f} of plain"
    )
    silent = Translator(plain.model, translator.memories, Vanilla(k=translator.combiner.k, knn_weight=0.0))
    pairs = zip(silent.translate(texts), plain.translate(texts), strict=True)
    print(f"knn_weight 0: {sum(a.text == b.text for a, b in pairs)} of {len(texts)} equal to plain")


def main() -> None:
    """Read the command line and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--model", help="a folder or a hub name; otherwise the bundled model")
    parser.add_argument("--sentences", type=Path, help="a file with one source sentence a line; otherwise made up")
    parser.add_argument("--count", type=int, default=64, help="sentences to translate")
    parser.add_argument("--memory", help="a store with its index, for the speed with a memory")
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--knn-weight", type=float, default=0.6)
    parser.add_argument("--temperature", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, default=3, help="times each takes its turn; the best counts")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    use_threads(args.threads)
    model = load_model(args.model)
    if args.sentences:
        texts = args.sentences.read_text(encoding="utf-8").splitlines()
    else:
        texts = make_up(model.languages.source if model.languages else "de", args.count)
    texts = [text for text, ids in zip(texts, model.encode_sources(texts), strict=True) if len(ids) < model.max_length]
    texts = texts[: args.count]
    sources = model.encode_sources(texts)
    compare(model, sources, 32, args.rounds)
    compare(model, sources[: max(1, args.count // 8)], 1, args.rounds)
    if args.memory:
        combiner = Vanilla(args.k, args.knn_weight, args.temperature)
        translator = Translator(model, [open_memory(args.memory)], combiner)
        compare_memory(translator, Translator(model), texts, args.rounds)


if __name__ == "__main__":
    main()
