"""The systems whose speed is compared: transformers, CTranslate2, and Lacuna with and without a memory.

Each maps texts to translations and records the time of its parts. All models read the same tokens, with stand-ins for
placeholders, and in the translations of all, placeholders are put back in the same way. What Lacuna does beyond that,
translating again what lost a placeholder, is measured in a row of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.combiners import Combiner, Gate, Vanilla, load_combiner, load_gate
from lacuna.corpora.placeholders import Masked, mask
from lacuna.decoding import BeamSettings, plan_batches, pool_for
from lacuna.errors import CombinerError
from lacuna.index import Neighborhood, VectorIndex
from lacuna.memory import FolderMemory, Memory, open_memory
from lacuna.models import Model
from lacuna.translator import System

BUNDLED = Path(__file__).parent.parent / "src/lacuna/bundled/de-en"


class Clock:
    """Sums the seconds spent in each part of the work, over all threads."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._lock = Lock()

    def timed(self, part: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function so that its time is counted."""

        def run(*args: object, **more: object) -> object:
            started = perf_counter()
            result = work(*args, **more)
            spent = perf_counter() - started
            with self._lock:
                self.seconds[part] = self.seconds.get(part, 0.0) + spent
            return result

        return run


@dataclass(frozen=True)
class TimedIndex:
    """An index whose searches are timed."""

    index: VectorIndex
    clock: Clock

    @property
    def kind(self) -> str:
        """Kind of the wrapped index."""
        return self.index.kind

    @property
    def size(self) -> int:
        """Number of keys."""
        return self.index.size

    def search(self, queries: NDArray[np.float32], k: int) -> Neighborhood:
        """Search."""
        found: Neighborhood = self.clock.timed("search", self.index.search)(queries, k)
        return found


@dataclass
class TimedSystem:
    """A system under test: takes texts and a batch size, returns translations and their number of tokens.

    :param clock: Of its parts, where they are known.
    :param min_sentences: See ``pool_for``.
    """

    name: str
    run: Callable[[Sequence[str], int], tuple[list[str], int]]
    clock: Clock = field(default_factory=Clock)
    note: Callable[[], str] = lambda: ""
    min_sentences: int = 8

    def shares(self, seconds: float, sentences: int, batch: int) -> dict[str, float]:
        """Return the shares of time spent in the model, the search, the interpolation and the rest."""
        spent = self.clock.seconds
        if not spent:
            return {}
        whole = seconds * pool_for(sentences, batch, self.min_sentences).workers
        search, model = spent.get("search", 0.0), spent["model"] + spent["projection"]
        mixing = spent["scoring"] - spent["projection"] - search if "scoring" in spent else 0.0
        parts = {"model": model, "search": search, "mixing": mixing}
        parts["beam"] = whole - sum(parts.values())
        return {name: part / whole for name, part in parts.items()}


def of_lacuna(
    name: str,
    model: Model,
    memory: Memory | None = None,
    combiner: Combiner | None = None,
    *,
    whole: bool = False,
    **more: Gate | bool | None,
) -> TimedSystem:
    """Wrap a translator.

    :param whole: With all that it does for placeholders and cut translations.
    """
    clock = Clock()
    memories = [FolderMemory.of(memory.store, memory.name, TimedIndex(memory.index, clock))] if memory else []
    settings: dict[str, Any] = {"exact_contexts": False, "guard_ends": False, **more}
    translator: Any = System(model, memories, combiner or Vanilla(), **settings).open()
    plain, knn = translator._search._plain, translator._knn
    for method, part in (("start", "model"), ("advance", "model"), ("predict", "projection")):
        setattr(plain, method, clock.timed(part, getattr(plain, method)))
    if knn is not None:
        knn.score = clock.timed("scoring", knn.score)

    def run(texts: Sequence[str], batch: int) -> tuple[list[str], int]:
        if whole:
            results = translator.translate(texts, batch_size=batch)
            return [result.text for result in results], sum(result.tokens for result in results)
        hypotheses = translator._search.find(translator.encode(texts), batch)
        best = [candidates[0].tokens for candidates in hypotheses]
        return restored_all(model, texts, [model.decode(tokens) for tokens in best]), sum(map(len, best))

    def note() -> str:
        count = translator.search_count
        return f"searched {count.searched / count.rows:.0%}" if more.get("gate") and count.rows else ""

    return TimedSystem(name, run, clock, note, plain.min_sentences)


def restored(masked: Masked, translation: str) -> str:
    """Put placeholders back into a translation of a masked text: all of them, or those that are left."""
    whole = masked.restore(translation)
    if whole is not None:
        return whole
    for stand_in, placeholder in masked.stand_ins.items():
        translation = translation.replace(stand_in, placeholder.original)
    return translation


def restored_all(model: Model, texts: Sequence[str], translations: Sequence[str]) -> list[str]:
    """Put placeholders back where the model has masked them."""
    if not model.mask_placeholders:
        return list(translations)
    return [restored(mask(text), found) for text, found in zip(texts, translations, strict=True)]


def of_transformers(model: Model) -> TimedSystem:
    """Wrap the ``generate`` of transformers, with the same batches of similar length."""
    settings = BeamSettings()

    def run(texts: Sequence[str], batch: int) -> tuple[list[str], int]:
        sources = model.encode_sources(texts)
        generation = model._generation(settings.beam, settings.length_penalty, settings.max_new_tokens)
        found, tokens = [""] * len(texts), 0
        with torch.inference_mode():
            for chosen in plan_batches([len(source) for source in sources], batch_size=batch):
                outputs = model._generate_batch([sources[n] for n in chosen], generation)
                for number, output in zip(chosen, outputs, strict=True):
                    ended = model.eos_id in output
                    output = output[: output.index(model.eos_id) + 1] if ended else output
                    found[number], tokens = model.decode(output), tokens + len(output)
        return restored_all(model, texts, found), tokens

    return TimedSystem("transformers generate", run)


def serve_ctranslate2(pipe: Connection, folder: str, ways: dict[str, Any]) -> None:
    """Translate tokens that arrive through a pipe until its other end is closed."""
    import ctranslate2

    engine = ctranslate2.Translator(folder, device="cpu", **ways)
    beam = {"beam_size": 5, "length_penalty": 1, "max_decoding_length": 200}
    while True:
        try:
            sources, batch = pipe.recv()
        except EOFError:
            return
        results = engine.translate_batch(sources, max_batch_size=batch, **beam)
        pipe.send([result.hypotheses[0] for result in results])


def convert_for_ctranslate2(folder: Path, model: Model, into: Path) -> None:
    """Convert a model folder for CTranslate2, so that it is the same model.

    CTranslate2 starts the decoder of Marian models from a zero embedding, without that of the start token. Where that
    is not zero, it is added to the first position, which only the start token has.
    """
    import ctranslate2

    class Converter(ctranslate2.converters.TransformersConverter):  # type: ignore[misc]
        def _load(self) -> Any:  # noqa: ANN401 - CTranslate2 has no types
            spec = super()._load()
            if spec.decoder.start_from_zero_embedding:
                start = model.hf.model.decoder.embed_tokens.weight[model.hf.config.decoder_start_token_id]
                scale = len(start) ** 0.5 if model.hf.config.scale_embedding else 1.0
                positions = spec.decoder.position_encodings.encodings.detach().clone()
                positions[0] += scale * start.detach()
                spec.decoder.position_encodings.encodings = positions
            return spec

    Converter(str(folder)).convert(str(into))


def of_ctranslate2(folder: Path, model: Model, compute: str, into: Path, workers: int, threads: int) -> TimedSystem:
    """Convert a model folder for CTranslate2 and wrap it.

    It runs in a separate process, because its worker threads slow down the rest of theirs even when idle.
    """
    if not into.exists():
        convert_for_ctranslate2(folder, model, into)
    ways = {"compute_type": compute, "inter_threads": workers, "intra_threads": threads}
    spawning = multiprocessing.get_context("spawn")
    pipe, end = spawning.Pipe()
    spawning.Process(target=serve_ctranslate2, args=(end, str(into), ways), daemon=True).start()
    end.close()  # so that the loss of the process ends the wait for its answer
    spell = model.tokenizer.convert_ids_to_tokens

    def run(texts: Sequence[str], batch: int) -> tuple[list[str], int]:
        pipe.send(([spell(ids) for ids in model.encode_sources(texts)], batch))
        ids = [model.tokenizer.convert_tokens_to_ids(tokens) for tokens in pipe.recv()]
        found = [model.decode(each) for each in ids]
        return restored_all(model, texts, found), sum(len(each) + 1 for each in ids)

    run(["1"], 1)  # warm-up: the process must be running before anything is timed
    return TimedSystem(f"CTranslate2 {compute}, {workers}x{threads}", run)


def make_systems(args: argparse.Namespace, model: Model, folder: Path) -> list[TimedSystem]:
    """Make all systems; ratios are relative to the first."""
    systems = [
        of_lacuna("lacuna", model, int8=False),
        of_lacuna("lacuna int8", model, int8=True),
        of_lacuna("lacuna int8, translated again", model, whole=True, int8=True),
    ]
    if not args.lacuna_only:
        systems += other_engines(args, model, folder)
    for size, store, combiner in (("whole", args.memory, args.combiner), ("pruned", args.pruned, args.pruned_combiner)):
        if store:
            systems += with_memory(size, model, open_memory(store), combiner)
    return systems


def other_engines(args: argparse.Namespace, model: Model, folder: Path) -> list[TimedSystem]:
    """Make the systems of transformers and, if the model can be converted, of CTranslate2."""
    systems = [of_transformers(model)]
    source = Path(args.model) if args.model else BUNDLED
    ways = [(compute, workers) for compute in ("float32", "int8") for workers in sorted({1, args.threads})]
    for compute, workers in ways:
        try:
            threads = args.threads // workers
            systems.append(of_ctranslate2(source, model, compute, folder / "ct2", workers, threads))
        except Exception as error:
            print(f"CTranslate2: this model does not convert ({type(error).__name__}: {str(error)[:100]})")
            break
    return systems


def with_memory(size: str, model: Model, memory: Memory, folder: str | None) -> list[TimedSystem]:
    """Make the systems of one memory, with float32 weights and with 8-bit ones."""
    systems = []
    for suffix, int8 in (("", False), (", int8", True)):
        vanilla = Vanilla(k=8, knn_weight=0.6, temperature=30.0)
        systems.append(of_lacuna(f"vanilla, {size}{suffix}", model, memory, vanilla, int8=int8))
        if folder:
            adaptive, gate = load_combiner(folder).combiner, gate_of(folder)
            systems.append(of_lacuna(f"adaptive, {size}{suffix}", model, memory, adaptive, int8=int8))
            if gate:
                name = f"adaptive, {size}, gate{suffix}"
                systems.append(of_lacuna(name, model, memory, adaptive, gate=gate, int8=int8))
    return systems


def gate_of(folder: str) -> Gate | None:
    """Load the gate of a combiner, if there is one."""
    try:
        return load_gate(folder)[0]
    except CombinerError:
        return None
