"""The dev pass: run the model over held-out pairs with teacher forcing, and search the memories for every token.

Everything that is fitted starts here. Yields batches; what is kept of them is up to the caller.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.corpora import draw_pairs
from lacuna.datastore import Store
from lacuna.decoding import plan_batches
from lacuna.errors import CorpusError, LacunaWarning
from lacuna.models import Model, TeacherForced
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair
from lacuna.translator.memory import Memory, Retrieval, find_neighbors

BATCH_SIZE = 32


class EncodedDevPair(NamedTuple):
    """A pair in tokens.

    :param number: Its place in the dev set.
    """

    number: int
    source: list[int]
    target: list[int]


@dataclass(frozen=True, eq=False, slots=True)
class ModelBatch:
    """Some dev pairs after the model's pass. Rows run over sentences, then positions.

    :param sentences: Place in the dev set of each token's pair: (tokens,).
    :param gold: The reference tokens: (tokens,).
    :param outputs: The model's keys, predictions and probabilities at these tokens.
    """

    sentences: torch.Tensor
    gold: torch.Tensor
    outputs: TeacherForced


@dataclass(frozen=True, eq=False, slots=True)
class DevBatch(ModelBatch):
    """Some dev pairs after the dev pass: with the neighbors of each token.

    :param found: The neighbors.
    """

    found: Retrieval


class DevSet:
    """Held-out sentence pairs, which no memory contains.

    One made with ``DevSet(pairs)`` remembers the model's pass, so that several combiners, memories or a gate can be
    fitted after one pass. This keeps the keys of all target tokens in memory (float32).

    Pairs that are too long for the model are left out with a warning.

    :param pairs: The pairs, in order.
    :param batch_size: Pairs that go through the model at once.
    :param remember: Whether to keep the model's pass.
    """

    def __init__(self, pairs: Iterable[SentencePair], *, batch_size: int = BATCH_SIZE, remember: bool = True) -> None:
        self.pairs = tuple(pairs)
        self._batch_size, self._remember = batch_size, remember
        # By model object: two models with one fingerprint may differ in direction or precision.
        self._passes: WeakKeyDictionary[Model, list[ModelBatch]] = WeakKeyDictionary()
        self._skipped: WeakKeyDictionary[Model, int] = WeakKeyDictionary()
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
            self._drawn[count, seed] = DevSet(pairs, batch_size=self._batch_size, remember=self._remember)
        return self._drawn[count, seed]

    def skipped(self, model: Model) -> int:
        """Return the number of pairs that are too long for the model."""
        if model not in self._skipped:
            self._skipped[model] = len(self) - len(encode_fitting(model, self.pairs))
        return self._skipped[model]

    def teacher_force(self, model: Model) -> Iterable[ModelBatch]:
        """Run the model over the pairs in batches of similar length, or return what is remembered."""
        if model in self._passes:
            return self._passes[model]
        encoded = encode_fitting(model, self.pairs)
        self._skipped[model] = len(self) - len(encoded)
        batches = _teacher_force(model, encoded, self._batch_size)
        if not self._remember:
            return batches
        return self._passes.setdefault(model, list(batches))

    def retrieve(
        self, model: Model, memories: Sequence[Memory], k: int, *, progress: Progress = SILENT
    ) -> Iterator[DevBatch]:
        """Run the dev pass: the model's outputs and the k neighbors of every target token, batch by batch."""
        for memory in memories:
            memory.store.check_model(model)
        progress.start("retrieve", len(self), "sentences")
        for batch in self.teacher_force(model):
            found = find_neighbors(memories, batch.outputs.keys, k)
            yield DevBatch(batch.sentences, batch.gold, batch.outputs, found)
            progress.advance(len(batch.outputs.lengths))
        progress.finish()


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
            "give another --dev"
        )
    if len(fitting) < len(pairs):
        skipped = len(pairs) - len(fitting)
        text = f"dev set: {skipped:,} of {len(pairs):,} pairs are too long for the model and were left out"
        warnings.warn(text, LacunaWarning, stacklevel=2)
    return fitting


def _teacher_force(model: Model, pairs: Sequence[EncodedDevPair], batch_size: int) -> Iterator[ModelBatch]:
    for batch in plan_batches([len(pair.target) for pair in pairs], batch_size=batch_size):
        chosen = [pairs[place] for place in batch]
        outputs = model.teacher_force([pair.source for pair in chosen], [pair.target for pair in chosen])
        numbers = torch.tensor([pair.number for pair in chosen])
        yield ModelBatch(
            sentences=numbers.repeat_interleave(torch.tensor(outputs.lengths)),
            gold=torch.tensor([token for pair in chosen for token in pair.target]),
            outputs=outputs,
        )
