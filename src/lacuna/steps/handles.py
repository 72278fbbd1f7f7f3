"""What steps take and return: sentence pairs, settings, and handles of results with the key of the step that made them.

A handle is cheap: it has its key at once, and its step runs when its files are asked for. So a result that depends only
on keys can be found without making what it was computed from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.combiners import SavedCombiner, Vanilla, load_combiner
from lacuna.datastore import Store, open_store
from lacuna.evaluation.noninferiority import NonInferiority
from lacuna.fitting import PruningChoice, PruningLoss
from lacuna.index.manifest import read_manifest
from lacuna.memory import Memory, open_memory
from lacuna.records import SentencePair
from lacuna.steps.combiner_choice import Candidate


@dataclass(frozen=True, slots=True)
class Sentences:
    """Sentence pairs with their key.

    :param key: A hash of them.
    """

    pairs: list[SentencePair]
    key: str

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def sources(self) -> list[str]:
        """The source sides."""
        return [pair.source for pair in self.pairs]

    @property
    def references(self) -> list[str]:
        """The target sides."""
        return [pair.target for pair in self.pairs]


@dataclass(frozen=True, slots=True)
class StepSettings:
    """Settings that all steps of a run share.

    :param max_margin: Of the margins of memories, as ``approximate``.
    :param index: Kind of index of all memories; ``None`` for the default kind, which is no part of the key.
    :param name: Name of the memory in what is fitted to it; ``None`` for the name of its folder.
    :param seed: Seed of all steps; ``None`` if they have seeds of their own.
    """

    max_margin: int
    approximate: bool = False
    index: str | None = None
    name: str | None = None
    seed: int | None = None


@dataclass(frozen=True, eq=False)
class CachedMemory:
    """A memory made by a step, when its files are first asked for.

    :param make: Makes the store, or finds it in the cache, and returns its folder.
    :param key: Key of the last step that made it; covers the entries, and the index if its kind was asked for.
    :param margins: What identifies its margins among those of the same entries, as inputs of steps.
    :param name: See :class:`StepSettings`.
    """

    make: Callable[[], Path]
    key: str
    margins: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None

    @cached_property
    def path(self) -> Path:
        """Folder of the store."""
        return self.make()

    @property
    def store(self) -> Store:
        """The opened store."""
        return open_store(self.path)

    @property
    def entries(self) -> int:
        """Number of entries."""
        return self.store.entries

    def open(self) -> Memory:
        """Open the memory."""
        return open_memory(self.path, self.name)

    @cached_property
    def opened(self) -> Memory:
        """The memory, opened once for all who use it."""
        return self.open()


KEEP, WEIGHTS = "keep.npy", "weights.npy"


@dataclass(frozen=True, eq=False)
class MaskedMemory:
    """A pruned memory that is no copy: the entries of another one that are kept.

    :param whole: The other memory.
    :param make: Makes the mask, or finds it in the cache, and returns its folder.
    :param key: Key of the step that made the mask.
    """

    whole: CachedMemory
    make: Callable[[], Path]
    key: str

    @cached_property
    def keep(self) -> NDArray[np.bool_]:
        """Whether an entry of the whole memory is kept, for each of them."""
        bits = np.load(self._folder / KEEP, allow_pickle=False)
        return np.unpackbits(bits, count=self.whole.entries).view(np.bool_)

    @property
    def entries(self) -> int:
        """Number of entries that are kept."""
        return int(np.count_nonzero(self.keep))

    @property
    def opened(self) -> Memory:
        """The whole memory, opened once for all who use it, in which only the kept entries are found."""
        path = self._folder / WEIGHTS
        weights = np.load(path, allow_pickle=False) if path.exists() else None
        return self.whole.opened.keeping(self.keep, weights)

    @cached_property
    def _folder(self) -> Path:
        return self.make()


# A memory with entries that can be counted and searched.
PrunedMemory = CachedMemory | MaskedMemory


@dataclass(frozen=True, slots=True)
class IndexSize:
    """The size of the index of a store.

    :param kind: Kind of the index.
    :param bytes: Size of its file; ``None`` for exact search, which reads the keys.
    """

    entries: int
    dimension: int
    kind: str
    bytes: int | None

    @classmethod
    def of(cls, store: Store) -> IndexSize:
        """Return the size of the index that a store has."""
        made = read_manifest(store)
        return cls(store.entries, store.dimension, made.kind, None if made.data is None else made.data.bytes)


@dataclass(frozen=True, eq=False)
class CachedModel:
    """A fine-tuned model made by a step, when it is first asked for.

    :param make: Trains it, or finds it in the cache, and returns its folder.
    """

    make: Callable[[], Path]
    key: str

    @cached_property
    def path(self) -> Path:
        """Folder of the model."""
        return self.make()


@dataclass(frozen=True, eq=False)
class CachedCombiner:
    """A combiner made by a step, perhaps with a gate, when it is first asked for.

    :param make: Fits it, or finds it in the cache, and returns its folder.
    :param candidates: What was compared to choose it; see :func:`~lacuna.steps.combiner_choice.choose_combiner`.
    :param searched: See :func:`~lacuna.steps.combiner_choice.choose_gate`.
    """

    make: Callable[[], Path]
    key: str
    candidates: tuple[Candidate, ...] = ()
    searched: float | None = None

    @cached_property
    def path(self) -> Path:
        """Folder of the combiner."""
        return self.make()

    def load(self) -> SavedCombiner:
        """Load the combiner."""
        return load_combiner(self.path)


@dataclass(frozen=True, slots=True)
class SafeRatio:
    """The largest ratio of PLAC that keeps the promise on dev.

    :param max_loss: The promise: the largest share of what the memory adds that may be lost.
    :param max_drop: The largest drop of BLEU and chrF that is accepted.
    :param loss: What is lost on dev.
    :param drops: The tests of BLEU and chrF on dev translations.
    :param combiner: Vanilla kNN-MT with which all of this was measured.
    """

    min_margin: int
    ratio: float
    max_loss: float
    max_drop: float
    loss: PruningLoss
    drops: tuple[NonInferiority, ...]
    combiner: Vanilla

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> SafeRatio:
        """Return the ratio that :meth:`as_json` gave."""
        parts = {
            "loss": PruningLoss(**content["loss"]),
            "drops": tuple(NonInferiority(**drop) for drop in content["drops"]),
            "combiner": Vanilla(**content["combiner"]),
        }
        return cls(**dict(content) | parts)


@dataclass(frozen=True, slots=True)
class RatioChoice:
    """The result of choosing a ratio.

    :param safe: ``None`` if no ratio keeps the promise.
    :param why: Why none does.
    """

    safe: SafeRatio | None
    why: str = ""

    @classmethod
    def of(cls, choice: PruningChoice) -> RatioChoice:
        """Return what is kept of a choice."""
        if (chosen := choice.chosen) is None:
            return cls(None, choice.why)
        limits = (choice.max_loss, choice.max_drop)
        return cls(SafeRatio(chosen.min_margin, chosen.ratio, *limits, chosen.loss, chosen.drops, choice.combiner))

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"safe": self.safe and self.safe.as_json(), "why": self.why}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> RatioChoice:
        """Return the choice that :meth:`as_json` gave."""
        return cls(content["safe"] and SafeRatio.from_json(content["safe"]), content["why"])
