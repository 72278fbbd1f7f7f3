"""How fast translation is: transformers, CTranslate2 and Lacuna, without a memory and with one, side by side.

    python benchmarks/bench.py [--model FOLDER] [--test CORPUS] [--memory STORE --combiner FOLDER]
                               [--pruned STORE --pruned-combiner FOLDER] [--batch 1 8 32] [--sentences 96] [--threads 2]

Every system takes its turn in every round, so that whatever else the machine does meets all alike; the best round
counts. Speed is target tokens per second; what matters are the ratios. With ``--test`` each system's BLEU stands beside
its speed. A combiner with a gate (``lacuna fit --gate``) is measured with and without it. ``--equal N`` compares the
fast decoder with the one of transformers on N sentences instead.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from lacuna.combiners import Combiner, Gate, Neighbors, Vanilla, load_combiner, load_gate
from lacuna.corpora import read_corpus
from lacuna.decoding import BeamSettings, decode_all
from lacuna.errors import CombinerError
from lacuna.evaluation import evaluate_systems
from lacuna.index import Neighborhood, VectorIndex, measure_recall
from lacuna.index.faiss import use_threads
from lacuna.models import Model, load_model
from lacuna.models.stepping import ModelScorer
from lacuna.translator import Memory, Translator, open_memory

BUNDLED = Path(__file__).parent.parent / "src/lacuna/bundled/de-en"
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


Result = TypeVar("Result")


@dataclass
class Clock:
    """Adds up the seconds of one kind of work."""

    seconds: float = 0.0

    def time(self, work: Callable[[], Result]) -> Result:
        """Do some work and count its time."""
        started = time.perf_counter()
        result = work()
        self.seconds += time.perf_counter() - started
        return result


@dataclass(frozen=True)
class TimedIndex:
    """An index whose searches are timed."""

    index: VectorIndex
    clock: Clock

    @property
    def kind(self) -> str:
        """What it is."""
        return self.index.kind

    @property
    def size(self) -> int:
        """How many keys it holds."""
        return self.index.size

    def search(self, queries: NDArray[np.float32], k: int) -> Neighborhood:
        """Search."""
        return self.clock.time(lambda: self.index.search(queries, k))


@dataclass(frozen=True)
class TimedCombiner:
    """A combiner whose weighing is timed."""

    combiner: Combiner
    clock: Clock

    @property
    def k(self) -> int:
        """Neighbors per query."""
        return self.combiner.k

    def mass(self, found: Neighbors) -> torch.Tensor:
        """Weigh."""
        return self.clock.time(lambda: self.combiner.mass(found))


@dataclass
class System:
    """Something that translates: texts and a batch size in, translations and their number of tokens out."""

    name: str
    run: Callable[[Sequence[str], int], tuple[list[str], int]]
    search: Clock = field(default_factory=Clock)
    weigh: Clock = field(default_factory=Clock)
    note: Callable[[], str] = lambda: ""


def of_lacuna(
    name: str, model: Model, memory: Memory | None = None, combiner: Combiner | None = None, **more: Gate | bool
) -> System:
    """Make a system of a translator."""
    search, weigh = Clock(), Clock()
    memories = [replace(memory, index=TimedIndex(memory.index, search))] if memory else []
    translator = Translator(model, memories, TimedCombiner(combiner, weigh) if combiner else None, **more)

    def run(texts: Sequence[str], batch: int) -> tuple[list[str], int]:
        results = translator.translate(texts, batch_size=batch)
        return [result.text for result in results], sum(result.tokens for result in results)

    def note() -> str:
        count = translator.search_count
        return f"searched {count.searched / count.rows:.0%}" if more.get("gate") and count.rows else ""

    return System(name, run, search, weigh, note)


def of_transformers(model: Model) -> System:
    """Make a system of transformers' own ``generate``, in the same batches of like length."""
    settings = BeamSettings()

    def run(texts: Sequence[str], batch: int) -> tuple[list[str], int]:
        sources = model.encode_sources(texts)
        order = sorted(range(len(sources)), key=lambda n: -len(sources[n]))
        generation = model._generation(settings.beam, settings.length_penalty, settings.max_new_tokens)
        found, tokens = [""] * len(texts), 0
        with torch.inference_mode():
            for start in range(0, len(order), batch):
                chosen = order[start : start + batch]
                for number, output in zip(
                    chosen, model._generate_batch([sources[n] for n in chosen], generation), strict=True
                ):
                    ended = model.eos_id in output
                    output = output[: output.index(model.eos_id) + 1] if ended else output
                    found[number], tokens = model.decode(output), tokens + len(output)
        return found, tokens

    return System("transformers generate", run)


def of_ctranslate2(folder: Path, model: Model, compute: str, into: Path, threads: int) -> System:
    """Convert a model folder, and make a system of it."""
    import ctranslate2

    if not into.exists():
        ctranslate2.converters.TransformersConverter(str(folder)).convert(str(into))
    engine = ctranslate2.Translator(str(into), device="cpu", compute_type=compute, intra_threads=threads)
    spell = model.tokenizer.convert_ids_to_tokens

    def run(texts: Sequence[str], batch: int) -> tuple[list[str], int]:
        sources = [spell(ids) for ids in model.encode_sources(texts)]
        results = engine.translate_batch(
            sources, beam_size=5, length_penalty=1, max_decoding_length=200, max_batch_size=batch
        )
        best = [result.hypotheses[0] for result in results]
        ids = [model.tokenizer.convert_tokens_to_ids(tokens) for tokens in best]
        return [model.decode(each) for each in ids], sum(len(each) + 1 for each in ids)

    return System(f"CTranslate2 {compute}", run)


def make_systems(args: argparse.Namespace, model: Model, folder: Path) -> list[System]:
    """Make everything that is compared; the first is what ratios are taken against."""
    systems = [of_lacuna("lacuna", model), of_lacuna("lacuna int8", model, int8=True), of_transformers(model)]
    source = Path(args.model) if args.model else BUNDLED
    for compute in ("float32", "int8"):
        try:
            systems.append(of_ctranslate2(source, model, compute, folder / "ct2", args.threads))
        except Exception as error:
            print(f"CTranslate2: this model does not convert ({type(error).__name__}: {str(error)[:100]})")
            break
    for size, store, combiner in (("whole", args.memory, args.combiner), ("pruned", args.pruned, args.pruned_combiner)):
        if store:
            systems += with_memory(size, model, open_memory(store), combiner)
    return systems


def with_memory(size: str, model: Model, memory: Memory, folder: str | None) -> list[System]:
    """Make the systems of one memory."""
    vanilla = Vanilla(k=8, knn_weight=0.6, temperature=30.0)
    systems = [of_lacuna(f"vanilla, {size}", model, memory, vanilla)]
    if folder:
        adaptive = load_combiner(folder)
        systems.append(of_lacuna(f"adaptive, {size}", model, memory, adaptive.combiner))
        gate = gate_of(folder)
        if gate:
            systems.append(of_lacuna(f"adaptive, {size}, gate", model, memory, adaptive.combiner, gate=gate))
            systems.append(
                of_lacuna(f"adaptive, {size}, gate, int8", model, memory, adaptive.combiner, gate=gate, int8=True)
            )
    return systems


def gate_of(folder: str) -> Gate | None:
    """Open a combiner's gate, where it has one."""
    try:
        return load_gate(folder)[0]
    except CombinerError:
        return None


def make_up(language: str, count: int) -> list[str]:
    """Put one to four parts together, in ever other ways."""
    draw = random.Random(1)
    parts = PARTS.get(language, PARTS["de"])
    return [" ".join(draw.sample(parts, draw.choice((1, 1, 2, 3, 4)))) for _ in range(count)]


def read_texts(args: argparse.Namespace, model: Model) -> tuple[list[str], list[str]]:
    """Give sources, and references where there are any."""
    wanted = max(args.sentences, args.equal or 0)
    if not args.test:
        return make_up(model.languages.source if model.languages else "de", wanted), []
    pairs = list(islice(read_corpus(args.test, languages=model.languages), 4 * wanted))
    fitting = [
        p for p, ids in zip(pairs, model.encode_sources([p.source for p in pairs]), strict=True) if len(ids) < 150
    ]
    return [pair.source for pair in fitting[:wanted]], [pair.target for pair in fitting[:wanted]]


def check_equal(model: Model, texts: Sequence[str]) -> None:
    """Say on how many sentences the fast decoder and that of transformers agree."""
    sources, settings = model.encode_sources(texts), BeamSettings()
    fast, generic = (decode_all(ModelScorer(model, fast=one), sources, settings) for one in (True, False))
    same = sum(a[0].tokens == b[0].tokens for a, b in zip(fast, generic, strict=True))
    apart = max(abs(a[0].score - b[0].score) for a, b in zip(fast, generic, strict=True))
    print(json.dumps({"sentences": len(texts), "equal": same, "largest difference of scores": float(f"{apart:.2g}")}))


def measure(systems: list[System], texts: Sequence[str], batch: int, rounds: int) -> dict[str, dict[str, Any]]:
    """Let every system translate, in turns."""
    best: dict[str, dict[str, Any]] = {}
    for _ in range(rounds):
        for system in systems:
            system.search.seconds = system.weigh.seconds = 0.0
            started = time.perf_counter()
            found, tokens = system.run(texts, batch)
            seconds = time.perf_counter() - started
            if system.name not in best or seconds < best[system.name]["seconds"]:
                best[system.name] = {
                    "seconds": seconds,
                    "speed": tokens / seconds,
                    "search": system.search.seconds / seconds,
                    "weigh": system.weigh.seconds / seconds,
                    "texts": found,
                    "note": system.note(),
                }
    return best


def show(batch: int, best: dict[str, dict[str, Any]], references: Sequence[str]) -> None:
    """Print one table."""
    scores = {}
    if references:
        systems = {name: each["texts"] for name, each in best.items()}
        scores = {score.name: f"{score.bleu.value:.2f}" for score in evaluate_systems(references, systems)}
    plain = best["lacuna"]["speed"]
    table = Table(title=f"Batch {batch}")
    for column in ("system", "tokens/s", "of lacuna", "search", "weighing", "BLEU", ""):
        table.add_column(column, justify="left" if column in ("system", "") else "right", no_wrap=True)
    for name, each in best.items():
        shares = (f"{each[part]:.0%}" if each[part] else "" for part in ("search", "weigh"))
        speed = (f"{each['speed']:,.1f}", f"{each['speed'] / plain:.2f}")
        table.add_row(name, *speed, *shares, scores.get(name, ""), each["note"])
    Console(width=120).print(table)


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "test", "memory", "combiner", "pruned", "pruned-combiner"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--sentences", type=int, default=96, help="at batch 32; fewer at smaller ones")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--equal", type=int, help="compare the two decoders on so many sentences, and nothing else")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    use_threads(args.threads)
    model = load_model(args.model)
    texts, references = read_texts(args, model)
    if args.equal:
        return check_equal(model, texts[: args.equal])
    with tempfile.TemporaryDirectory() as folder:
        systems = make_systems(args, model, Path(folder))
        for batch in args.batch:
            count = max(4, min(args.sentences, args.sentences * batch // 32))
            show(batch, measure(systems, texts[:count], batch, args.rounds), references[:count])
    for store in filter(None, (args.memory, args.pruned)):
        memory = open_memory(store)
        recall = measure_recall(memory.store, memory.index, 8).results[0].recall
        print(f"{store}: {memory.store.entries:,} entries, {memory.index.kind}, recall at 8: {recall:.3f}")
    print(f"peak memory of all together: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")


if __name__ == "__main__":
    main()
