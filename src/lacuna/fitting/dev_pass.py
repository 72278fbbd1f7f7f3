"""The dev pass: run the model over held-out pairs with teacher forcing, and search the memories for every token.

Everything that is fitted starts here. Batches go to workers; what is kept of them is up to the caller.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.corpora import draw_pairs
from lacuna.datastore import Store
from lacuna.decoding import plan_batches
from lacuna.errors import CorpusError, LacunaWarning
from lacuna.fitting.dev_cache import DevCache, ModelBatch, pass_inputs
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair
from lacuna.translator.retrieval import Retrieval, find_neighbors
from lacuna.workers import WorkerPool

BATCH_SIZE = 32
# Target tokens in a batch, padding included: as in building, more do not fit the cache of a core.
BATCH_TOKENS = 512
# Pairs whose outputs are cached together. A batch never crosses the end of a window, so that dev sets with the same
# first pairs share them.
WINDOW = 250
# Log-probabilities are clamped here: where the model rules a token out, the sum over the vocabulary would be infinite.
MIN_LOG_P = -1000.0
# Logits held at once (16 MB), to bound memory.
_LOGITS_AT_ONCE = 2**22

Kept = TypeVar("Kept")


class EncodedDevPair(NamedTuple):
    """A pair in tokens.

    :param number: Its place in the dev set.
    """

    number: int
    source: list[int]
    target: list[int]


@dataclass(frozen=True, eq=False, slots=True)
class DevBatch(ModelBatch):
    """Some dev pairs after the dev pass: with the neighbors of each token.

    :param retrieval: The neighbors.
    """

    retrieval: Retrieval


class DevSet:
    """Held-out sentence pairs, which no memory contains.

    One made with ``DevSet(pairs)`` remembers the model's pass, so that several combiners, memories or a gate can be
    fitted after one pass. This keeps the keys of all target tokens in memory (float32), or on disk with a cache.

    Pairs that are too long for the model are left out with a warning.

    :param pairs: The pairs, in order.
    :param batch_size: Pairs that go through the model at once.
    :param remember: Whether to keep the model's pass.
    :param cache: Keeps the pass for other processes as well.
    """

    def __init__(
        self,
        pairs: Iterable[SentencePair],
        *,
        batch_size: int = BATCH_SIZE,
        remember: bool = True,
        cache: DevCache | None = None,
    ) -> None:
        self.pairs = tuple(pairs)
        self._batch_size, self._remember, self._cache = batch_size, remember or cache is not None, cache
        # By model object: two models with one fingerprint may differ in direction or precision.
        self._passes: WeakKeyDictionary[Model, list[ModelBatch]] = WeakKeyDictionary()
        self._skipped: WeakKeyDictionary[Model, int] = WeakKeyDictionary()
        self._totals: WeakKeyDictionary[Model, dict[int, torch.Tensor]] = WeakKeyDictionary()
        self._drawn: dict[tuple[int, int], DevSet] = {}

    @classmethod
    def of(cls, dev: DevSet | Iterable[SentencePair]) -> DevSet:
        """Return a dev set unchanged; wrap plain pairs, for a single pass that is not remembered."""
        return dev if isinstance(dev, DevSet) else cls(dev, remember=False)

    def __len__(self) -> int:
        return len(self.pairs)

    def draw(self, count: int, seed: int) -> DevSet:
        """Return at most ``count`` pairs, drawn at random and in their order; the same call returns the same object."""
        if (count, seed) not in self._drawn:
            pairs = draw_pairs(self.pairs, count, seed)
            drawn = DevSet(pairs, batch_size=self._batch_size, remember=self._remember, cache=self._cache)
            self._drawn[count, seed] = drawn
        return self._drawn[count, seed]

    def skipped(self, model: Model) -> int:
        """Return the number of pairs that are too long for the model."""
        if model not in self._skipped:
            self._skipped[model] = len(self) - len(encode_fitting(model, self.pairs))
        return self._skipped[model]

    def teacher_force(self, model: Model, *, progress: Progress = SILENT) -> Iterable[ModelBatch]:
        """Run the model over the pairs in batches of similar length, or return what is remembered."""
        if model in self._passes:
            return self._passes[model]
        if not self._remember:
            return _run(model, self._tasks(model))
        return self._passes.setdefault(model, self._cached_pass(model, progress))

    def totals(self, model: Model, batch: ModelBatch) -> torch.Tensor:
        """Return the totals of :func:`vocabulary_totals` for a batch of the dev pass.

        They take most of the time of fitting and do not depend on any memory, so they are remembered with the pass.
        """
        if not self._remember:
            return vocabulary_totals(model, batch.outputs.keys)
        known = self._totals.setdefault(model, {})
        first = int(batch.sentences[0])  # no other batch has this sentence
        if first not in known:
            known[first] = vocabulary_totals(model, batch.outputs.keys)
        return known[first]

    def retrieve(
        self,
        model: Model,
        memories: Sequence[Memory],
        k: int,
        then: Callable[[DevBatch], Kept],
        *,
        progress: Progress = SILENT,
    ) -> Iterator[Kept]:
        """Run the dev pass: the model's outputs and the k neighbors of every target token, batch by batch.

        :param then: Called in the worker that ran the batch; its result is what the caller gets, in order.
        """
        for memory in memories:
            memory.check_model(model)

        def search(make: Callable[[], ModelBatch]) -> tuple[int, Kept]:
            batch = make()
            retrieval = find_neighbors(memories, batch.outputs.keys, k)
            return len(batch.outputs.lengths), then(DevBatch(batch.sentences, batch.gold, batch.outputs, retrieval))

        made: Iterable[Callable[[], ModelBatch]] = self._tasks(model)
        if self._remember:
            made = [partial(_same, batch) for batch in self.teacher_force(model, progress=progress)]
        progress.start("retrieve", len(self), "sentences")
        with closing(WorkerPool.of_process(model.device).map(search, made)) as results:
            for sentences, kept in results:
                yield kept
                progress.advance(sentences)
        progress.finish()

    def _cached_pass(self, model: Model, progress: Progress) -> list[ModelBatch]:
        """Load the windows that are in the cache, and run the model over the others."""
        cached: dict[int, list[ModelBatch]] = {}
        windows = self._windows(model)
        inputs = {
            first: pass_inputs(model, self.pairs[first : first + WINDOW], self._batch_size)
            for first in (windows if self._cache else ())
        }
        for first in inputs:
            window = self._cache.load(inputs[first], first) if self._cache else None
            if window is not None:
                cached[first] = window
        missing = {first: self._batches(pairs) for first, pairs in windows.items() if first not in cached}
        tasks = (partial(_force, model, batch) for batches in missing.values() for batch in batches)
        progress.start("read dev", sum(len(windows[first]) for first in missing), "sentences")
        with closing(_run(model, tasks)) as forced:
            for first, batches in missing.items():
                made = list(islice(forced, len(batches)))
                progress.advance(len(windows[first]))
                if self._cache:
                    self._cache.save(inputs[first], made, first)
                    made = self._cache.load(inputs[first], first) or made  # from the disk, which takes no memory
                cached[first] = made
        progress.finish()
        return [batch for first in windows for batch in cached[first]]

    def _tasks(self, model: Model) -> Iterator[Callable[[], ModelBatch]]:
        for pairs in self._windows(model).values():
            for batch in self._batches(pairs):
                yield partial(_force, model, batch)

    def _windows(self, model: Model) -> dict[int, list[EncodedDevPair]]:
        """Return the pairs that fit the model, by the place of the first pair of their window."""
        encoded = encode_fitting(model, self.pairs)
        self._skipped[model] = len(self) - len(encoded)
        windows: dict[int, list[EncodedDevPair]] = {}
        for pair in encoded:
            windows.setdefault(pair.number // WINDOW * WINDOW, []).append(pair)
        return windows

    def _batches(self, pairs: list[EncodedDevPair]) -> list[list[EncodedDevPair]]:
        lengths = [len(pair.target) for pair in pairs]
        plan = plan_batches(lengths, batch_size=self._batch_size, max_tokens=BATCH_TOKENS)
        return [[pairs[number] for number in batch] for batch in plan]


@torch.inference_mode()
def vocabulary_totals(model: Model, keys: torch.Tensor) -> torch.Tensor:  # (keys, 2)
    """Return for each key the logarithm of the model's normalizer, and the sum of all log-probabilities."""
    parts = []
    for some in keys.split(max(1, _LOGITS_AT_ONCE // model.vocabulary_size)):
        logits = model.project(some)
        normalizer = logits.logsumexp(-1, keepdim=True)
        total = logits.sub_(normalizer).clamp_(min=MIN_LOG_P).sum(1, keepdim=True)
        parts.append(torch.cat([normalizer, total], dim=1).cpu())
    return torch.cat(parts)


def decoder_states(
    model: Model, store: Store, dev: DevSet | Iterable[SentencePair], most: int
) -> NDArray[np.float32]:  # (states, dimension)
    """Return at most ``most`` decoder states of a dev set, evenly spaced, as queries for an index of the store."""
    store.check_model(model)
    states = np.concatenate([batch.outputs.keys.numpy() for batch in DevSet.of(dev).teacher_force(model)])
    return states[:: max(1, len(states) // most)][:most]


def encode_fitting(model: Model, pairs: Sequence[SentencePair]) -> list[EncodedDevPair]:
    """Encode dev pairs; leave out those that are too long for the model, and warn with their number."""
    sources = model.encode_sources([pair.source for pair in pairs])
    targets = model.encode_targets([pair.target for pair in pairs])
    encoded = [EncodedDevPair(*pair) for pair in zip(range(len(pairs)), sources, targets, strict=True)]
    fitting = [pair for pair in encoded if model.fits(pair.source, pair.target)]
    if not fitting:
        raise CorpusError(
            f"dev set: {len(pairs):,} pairs, none of which fits into the {model.max_length} tokens of {model.name}; "
            "give another dev set"
        )
    if len(fitting) < len(pairs):
        skipped = len(pairs) - len(fitting)
        text = f"dev set: {skipped:,} of {len(pairs):,} pairs are too long for the model and were left out"
        warnings.warn(text, LacunaWarning, stacklevel=2)
    return fitting


def _run(model: Model, tasks: Iterable[Callable[[], ModelBatch]]) -> Generator[ModelBatch, None, None]:
    return WorkerPool.of_process(model.device).map(lambda task: task(), tasks)


def _same(batch: ModelBatch) -> ModelBatch:
    return batch


def _force(model: Model, pairs: Sequence[EncodedDevPair]) -> ModelBatch:
    """Run the model over a batch of pairs: the unit of work of the dev pass."""
    outputs = model.teacher_force([pair.source for pair in pairs], [pair.target for pair in pairs])
    numbers = torch.tensor([pair.number for pair in pairs])
    return ModelBatch(
        sentences=numbers.repeat_interleave(torch.tensor(outputs.lengths)),
        gold=torch.tensor([token for pair in pairs for token in pair.target]),
        outputs=outputs,
    )
