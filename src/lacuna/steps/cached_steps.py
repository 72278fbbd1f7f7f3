"""The cached steps from sentence pairs to scores: build, index, margin, prune, fit, fine-tune, translate and score.

Every step returns a handle with its key, which is an input of the steps after it. Steps that fit or choose something
use dev; none uses test. Knows nothing of domains and experiments.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.artifacts.arrays import save_array
from lacuna.artifacts.files import atomic_folder, write_json
from lacuna.combiners import Vanilla
from lacuna.datastore import build_store, open_store
from lacuna.datastore.copying import copy_store
from lacuna.datastore.manifest import Parent
from lacuna.errors import IndexingError
from lacuna.evaluation import CometScorer, evaluate_systems
from lacuna.fitting import DevSet, Fitter, PruningLoss, calibrate, choose_pruning, fit_combiner, measure_loss
from lacuna.fitting.pruning_choice import MAX_DROP, MAX_LOSS
from lacuna.index import build_index
from lacuna.index.kinds import AUTO
from lacuna.index.manifest import read_manifest
from lacuna.margin import Approximate, measure_margin
from lacuna.models import Model, load_model
from lacuna.models.training import FinetuneSettings, finetune_model
from lacuna.progress import SILENT, Progress
from lacuna.pruning import Plac, Pruner, prune_store
from lacuna.pruning.pruned_store import StoreEntries
from lacuna.steps.combiner_choice import (
    MAX_TRANSLATED,
    Candidate,
    DevParts,
    choose_combiner,
    choose_gate,
    save_safe_combiner,
)
from lacuna.steps.handles import (
    KEEP,
    WEIGHTS,
    CachedCombiner,
    CachedMemory,
    CachedModel,
    IndexSize,
    MaskedMemory,
    PrunedMemory,
    RatioChoice,
    SafeRatio,
    Sentences,
    StepSettings,
)
from lacuna.steps.step_cache import CachedStep, StepCache, hash_json, settings_as_json, step_key
from lacuna.translator import System
from lacuna.workers import Pool

STORE, COMBINER, CALIBRATION, MODEL = "store", "combiner", "calibration", "model"
CANDIDATES, GATE = "candidates.json", "gate.json"
Scores = dict[str, dict[str, Any]]


def model_inputs(model: Model, seed: int | None = None) -> dict[str, Any]:
    """Return the inputs of every step that uses the model; one model may translate in several directions."""
    more = ({} if seed is None else {"seed": seed}) | (
        {} if model.precision == "float32" else {"precision": model.precision}
    )
    return {"model": model.fingerprint, "languages": str(model.languages), **more}


_SAMPLE_SEED = 1  # fixed, so that samples of all sizes are nested


def sample_sentences(sentences: NDArray[np.int32], entries: int) -> NDArray[np.bool_]:
    """Draw whole sentences at random until they have enough entries; return the mask of these.

    A larger sample has all sentences of a smaller one.

    :param sentences: Sentence of each entry.
    """
    sizes = np.bincount(sentences)
    order = np.random.default_rng(_SAMPLE_SEED).permutation(len(sizes))
    before = np.empty(len(sizes), np.int64)  # entries of all sentences that are drawn before
    before[order] = np.cumsum(sizes[order]) - sizes[order]
    return before[sentences] < entries


class Steps:
    """Runs the steps of an adaptation or an experiment with one model through a cache.

    :param parts: Training, dev and test pairs by the name of the part.
    :param pool: Workers that build, measure margins, prune and translate; by default, the threads of this process.
    """

    def __init__(
        self,
        model: Model,
        parts: Mapping[str, Sentences],
        cache: StepCache,
        settings: StepSettings,
        progress: Progress = SILENT,
        pool: Pool | None = None,
    ) -> None:
        self.model, self.parts, self.cache, self.settings = model, parts, cache, settings
        self._progress, self._pool = progress, pool
        self._seed = 1 if settings.seed is None else settings.seed
        self._model_inputs = model_inputs(model, settings.seed)

    @cached_property
    def dev(self) -> DevSet:
        """The dev set."""
        return DevSet(self.parts["dev"].pairs)

    @cached_property
    def dev_parts(self) -> DevParts:
        """The dev set in two parts: one to fit on, one to compare on."""
        return DevParts.of(self.parts["dev"].pairs, self._seed)

    def build(self) -> CachedMemory:
        """Build the memory of all training pairs, with its index and its margins."""
        train = self.parts["train"]

        def work(folder: Path) -> None:
            build_store(
                self.model,
                train.pairs,
                folder / STORE,
                cleaning=None,  # cleaned when they were read
                total=len(train),
                progress=self._progress,
                pool=self._pool,
            )

        inputs = {**self._model_inputs, "train": train.key}
        return self._with_index(lambda: self.cache.make("store", inputs, work, resumes=True), step_key("store", inputs))

    def sample(self, memory: CachedMemory, entries: int) -> CachedMemory:
        """Make a memory of some sentences of another one, with its index and its margins; smaller ones are nested.

        :param entries: Number of entries; the last sentence may exceed it.
        """
        inputs = {"memory": memory.key, "entries": entries}

        def work(folder: Path) -> None:
            store = memory.store
            parent = Parent(
                fingerprint=store.fingerprint, entries=store.entries, made_by="sample", settings={"entries": entries}
            )
            keep = sample_sentences(store.sentence, entries)
            with atomic_folder(folder / STORE) as temporary:
                copy_store(store, temporary, parent, keep=keep, progress=self._progress, pool=self._pool)

        return self._with_index(lambda: self.cache.make("sample", inputs, work), step_key("sample", inputs))

    def _with_index(self, make: Callable[[], CachedStep], key: str) -> CachedMemory:
        """Return the memory of a store that is made later, with its index and its margins.

        :param make: Runs the step that makes the store.
        :param key: Key of that step.
        """
        settings = self.settings
        index_inputs = {"store": key, **({} if settings.index is None else {"kind": settings.index})}
        margin_inputs = {"store": key, "max_margin": settings.max_margin, "approximate": settings.approximate}

        def make_all() -> Path:
            path = make().folder / STORE
            self.cache.make("index", index_inputs, lambda _: self._index(path))
            self.cache.make("margin", margin_inputs, lambda _: self._measure(path), resumes=True)
            # Another run may have given the store another index or other margins since.
            self._index(path)
            self._measure(path)
            return path

        # Both forms are kept: they are part of the keys in existing caches.
        if settings.index is None:
            return CachedMemory(make_all, key, {"approximate": settings.approximate}, settings.name)
        margins = {"margin": step_key("margin", margin_inputs)}
        return CachedMemory(make_all, step_key("index", index_inputs), margins, settings.name)

    def _index(self, path: Path) -> None:
        store, kind = open_store(path), self.settings.index or AUTO
        try:
            current = read_manifest(store).asked == kind
        except IndexingError:
            current = False
        if not current:
            build_index(store, kind, seed=self._seed, progress=self._progress)

    def _measure(self, path: Path) -> None:
        measure_margin(
            open_store(path),
            self.settings.max_margin,
            approximate=Approximate() if self.settings.approximate else None,
            progress=self._progress,
            pool=self._pool,
        )

    def choose_ratio(self, memory: CachedMemory, dev: DevSet, max_loss: float = MAX_LOSS) -> RatioChoice:
        """Find the largest ratio that keeps the promise, as ``lacuna prune --auto`` does.

        :param dev: The dev pairs to try it on: all, or a part.
        """

        def compute() -> dict[str, Any]:
            choice = choose_pruning(
                self.model, memory.open(), dev, max_loss=max_loss, seed=self._seed, progress=self._progress
            )
            return RatioChoice.of(choice).as_json()

        return RatioChoice.from_json(self.cache.make_portable("safe", self._ratio_inputs(memory, max_loss), compute))

    def _ratio_inputs(self, memory: CachedMemory, max_loss: float) -> dict[str, Any]:
        limits = {"max_loss": max_loss, "max_drop": MAX_DROP}
        return {**self._model_inputs, "memory": memory.key, **memory.margins, "dev": self.parts["dev"].key, **limits}

    def measure_loss(self, whole: CachedMemory, pruned: PrunedMemory, combiner: Vanilla, part: str) -> PruningLoss:
        """Measure what a pruned memory loses on a part that chose nothing, such as test."""

        def compute() -> dict[str, Any]:
            pairs = DevSet(self.parts[part].pairs)
            loss = measure_loss(self.model, whole.opened, pruned.opened, pairs, combiner, progress=self._progress)
            return asdict(loss)

        inputs = {
            **self._model_inputs,
            "whole": whole.key,
            "pruned": pruned.key,
            "combiner": settings_as_json(combiner),
            "pairs": self.parts[part].key,
        }
        return PruningLoss(**self.cache.make_portable("loss", inputs, compute))

    def prune(self, memory: CachedMemory, pruner: Pruner, ratio: float | None, seed: int) -> PrunedMemory:
        """Prune a memory; a method that cannot drop ``ratio`` drops as much as it can.

        The result is a mask, which is a thousand times smaller than a copy, unless the method changes keys.
        """
        inputs = {"store": memory.key, "pruner": settings_as_json(pruner), "ratio": ratio, "seed": seed}
        if pruner.reads_margins:
            inputs |= memory.margins
        if pruner.changes_keys:
            name = f"prune-{pruner.name}"

            def copy() -> Path:
                work = partial(self._prune_into, memory, pruner, ratio, seed)
                return self.cache.make(name, inputs, work).folder / STORE

            return CachedMemory(copy, step_key(name, inputs), name=memory.name)
        name = f"mask-{pruner.name}"
        make = partial(self.cache.make, name, inputs, partial(self._mask, memory, pruner, ratio, seed))
        return MaskedMemory(memory, lambda: make().folder, step_key(name, inputs))

    def _prune_into(self, memory: CachedMemory, pruner: Pruner, ratio: float | None, seed: int, folder: Path) -> None:
        self._prune(memory, pruner, ratio, seed, folder / STORE)

    def _mask(self, memory: CachedMemory, pruner: Pruner, ratio: float | None, seed: int, folder: Path) -> None:
        entries = StoreEntries(memory.store, self._progress, self._pool)
        pruning = pruner.prune(entries, ratio=ratio, seed=seed, clamp=True)
        save_array(folder / KEEP, np.packbits(pruning.keep))
        if pruning.weights is not None:
            save_array(folder / WEIGHTS, pruning.weights)

    def index_size(self, memory: PrunedMemory) -> IndexSize:
        """Return the size of the index of a memory; that of a mask is built for this, from a copy of the entries."""

        def compute() -> dict[str, Any]:
            if isinstance(memory, CachedMemory):
                return asdict(IndexSize.of(memory.store))
            store = memory.whole.store
            parent = Parent(fingerprint=store.fingerprint, entries=store.entries, made_by="mask", settings={})
            with self.cache.temporary_folder() as folder:
                copy_store(store, folder / STORE, parent, keep=memory.keep, progress=self._progress, pool=self._pool)
                self._index(folder / STORE)
                return asdict(IndexSize.of(open_store(folder / STORE)))

        inputs = {"memory": memory.key, "kind": self.settings.index}
        return IndexSize(**self.cache.make_portable("indexsize", inputs, compute))

    def prune_safely(self, memory: CachedMemory, safe: SafeRatio) -> CachedMemory:
        """Prune a memory by PLAC at its safe ratio, and measure the margins of the rest."""

        def work(folder: Path) -> None:
            into = folder / STORE
            if not into.exists():  # otherwise the run was killed while margins were measured
                self._prune(memory, Plac(safe.min_margin), safe.ratio, self._seed, into)
            self._measure(into)

        inputs = {"choice": self._ratio_inputs(memory, safe.max_loss), "ratio": safe.ratio}
        step = self.cache.make("prune", inputs, work, resumes=True)
        return CachedMemory(lambda: step.folder / STORE, step.key, memory.margins, memory.name)

    def _prune(self, memory: CachedMemory, pruner: Pruner, ratio: float | None, seed: int, into: Path) -> None:
        prune_store(
            memory.store,
            pruner,
            into,
            ratio=ratio,
            seed=seed,
            clamp=True,
            index=self.settings.index or AUTO,
            progress=self._progress,
            pool=self._pool,
        )

    def finetune(self, settings: FinetuneSettings) -> CachedModel:
        """Fine-tune the model on the training pairs; beside its folder is ``report.json``."""
        train, dev = self.parts["train"], self.parts["dev"]
        inputs = {**self._model_inputs, "train": train.key, "dev": dev.key, "settings": settings_as_json(settings)}

        def work(folder: Path) -> None:
            report = finetune_model(
                self.model, train.pairs, folder / MODEL, settings, dev=dev.pairs, progress=self._progress
            )
            write_json(folder / "report.json", report.as_json() | {"into": MODEL})

        name = f"finetune-{'full' if settings.lora is None else 'lora'}"
        make = partial(self.cache.make, name, inputs, work, resumes=True)
        return CachedModel(lambda: make().folder / MODEL, step_key(name, inputs))

    def load_finetuned(self, finetuned: CachedModel) -> Model:
        """Load a fine-tuned model as the model itself was loaded."""
        return load_model(
            finetuned.path,
            device=str(self.model.device),
            languages=self.model.languages,
            mask_placeholders=self.model.mask_placeholders,
        )

    def fit(self, memory: PrunedMemory, fitter: Fitter, seed: int) -> CachedCombiner:
        """Fit a combiner on dev."""

        def work(folder: Path) -> None:
            fit_combiner(
                fitter, self.model, [memory.opened], self.dev, folder / "fit", seed=seed, progress=self._progress
            )

        inputs = {
            "memory": memory.key,
            "fitter": settings_as_json(fitter),
            "dev": self.parts["dev"].key,
            "seed": seed,
        }
        name = f"fit-{fitter.name}"
        return CachedCombiner(lambda: self.cache.make(name, inputs, work).folder / "fit", step_key(name, inputs))

    def choose_combiner(self, memory: CachedMemory, *, fits: bool) -> CachedCombiner:
        """Fit adaptive and vanilla and take the better one; or take safe settings.

        :param fits: Whether there is enough to fit to.
        """

        def work(folder: Path) -> None:
            opened, into, candidates = memory.open(), folder / COMBINER, list[Candidate]()
            if fits:
                candidates = choose_combiner(
                    self.model, opened, self.dev_parts, into, seed=self._seed, progress=self._progress
                )
            else:
                save_safe_combiner(self.model, opened, into, seed=self._seed)
            write_json(folder / CANDIDATES, [asdict(candidate) for candidate in candidates])

        inputs = {**self._model_inputs, "memory": memory.key, "dev": self.parts["dev"].key if fits else None}
        step = self.cache.make("fit", inputs, work)
        saved = json.loads((step.folder / CANDIDATES).read_text(encoding="utf-8"))
        return CachedCombiner(lambda: step.folder / COMBINER, step.key, tuple(Candidate(**each) for each in saved))

    def add_gate(self, memory: CachedMemory, combiner: CachedCombiner) -> CachedCombiner:
        """Add a gate if it saves enough searches without a loss on dev."""

        def work(folder: Path) -> None:
            shutil.copytree(combiner.path, folder / COMBINER)
            searched = choose_gate(
                self.model,
                memory.open(),
                folder / COMBINER,
                self.dev_parts.fitted,
                translated=MAX_TRANSLATED,
                seed=self._seed,
                progress=self._progress,
            )
            write_json(folder / GATE, {"searched": searched})

        inputs = {"memory": memory.key, "combiner": combiner.key, **memory.margins}
        step = self.cache.make("gate", inputs, work)
        searched = json.loads((step.folder / GATE).read_text(encoding="utf-8"))["searched"]
        return CachedCombiner(lambda: step.folder / COMBINER, step.key, combiner.candidates, searched)

    def calibrate(self, memory: CachedMemory) -> Path:
        """Fit a calibration; return its folder."""

        def work(folder: Path) -> None:
            calibrate(
                self.model,
                [memory.open()],
                self.dev_parts.fitted,
                folder / CALIBRATION,
                seed=self._seed,
                progress=self._progress,
            )

        inputs = {**self._model_inputs, "memory": memory.key, "dev": self.parts["dev"].key}
        return self.cache.make("calibrate", inputs, work).folder / CALIBRATION

    def translate(self, inputs: Mapping[str, Any], system: Callable[[], System], sources: Sequence[str]) -> list[str]:
        """Translate sentences.

        :param inputs: What identifies the system and the sentences, as inputs of the step.
        :param system: Opens the system.
        """

        def compute() -> list[str]:
            results = system().open().translate(sources, progress=self._progress, pool=self._pool)
            return [result.text for result in results]

        texts: list[str] = self.cache.make_json("translate", self.with_model(inputs), compute, "texts.json")
        return texts

    def has_translated(self, inputs: Mapping[str, Any]) -> bool:
        """Return whether :meth:`translate` is done for these inputs."""
        return self.cache.has("translate", self.with_model(inputs))

    def with_model(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs of a step that uses the model."""
        return {**self._model_inputs, **inputs}

    def score(self, systems: Mapping[str, list[str]], sentences: Sentences, comet: str | None = None) -> Scores:
        """Score translations and compare each system with the first.

        :param comet: Name of a COMET model.
        :return: By name of the system, the JSON object of ``lacuna evaluate --json``.
        """

        def compute() -> list[dict[str, Any]]:
            scores = evaluate_systems(
                sentences.references,
                systems,
                target_language=self.model.target_language,
                comet=None if comet is None else CometScorer(comet, device=str(self.model.device)),
                sources=() if comet is None else sentences.sources,
                progress=self._progress,
            )
            return [score.as_json() for score in scores]

        key = hash_json({"systems": dict(systems), "references": sentences.references, "comet": comet})
        rows = self.cache.make_json("score", {"content": key}, compute, "scores.json")
        return {row["name"]: row for row in rows}
