"""A store as pruners see it: columns, margins and neighbors, each read when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore import Store
from lacuna.index import open_index
from lacuna.margin import Margins, read_margins
from lacuna.progress import Progress

# Queries sent to the index at once: many, because exact search may read all keys from disk for each batch.
_QUERIES = 8192


@dataclass(frozen=True, eq=False)
class StoreEntries:
    """The :class:`~lacuna.pruning.base.EntryTable` of a store."""

    store: Store
    progress: Progress

    @property
    def values(self) -> NDArray[np.int32]:
        """The target token."""
        return self.store.values

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whether the model alone says the value."""
        return self.store.known

    @property
    def log_p_gold(self) -> NDArray[np.float32]:
        """Natural log-probability that the model gives the value."""
        return self.store.log_p_gold

    @property
    def sentence(self) -> NDArray[np.int32]:
        """The sentence id."""
        return self.store.sentence

    @property
    def position(self) -> NDArray[np.int32]:
        """The place of the value in its sentence."""
        return self.store.position

    @property
    def weights(self) -> NDArray[np.float32] | None:
        """How many entries each stands for."""
        return self.store.weights

    @property
    def margin(self) -> NDArray[np.uint16]:
        """The knowledge margins, which must have been measured."""
        return self._margins.values

    @property
    def max_margin(self) -> int:
        """Up to where they were measured."""
        return self._margins.manifest.max_margin

    @cached_property
    def _margins(self) -> Margins:
        return read_margins(self.store)

    def neighbors(self, k: int) -> Iterator[NDArray[np.int64]]:
        """Search the store's own index for the neighbors of every entry."""
        index = open_index(self.store)
        self.progress.start("finding neighbors", self.store.entries, "entries")
        for first, block in self.store.keys.blocks(_QUERIES):
            found = index.search(block.astype(np.float32), k + 1).ids
            yield without_self(found, np.arange(first, first + len(block)))
            self.progress.advance(len(block))
        self.progress.finish()


def without_self(ids: NDArray[np.int64], own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Drop each entry from its own neighbors; where it was not found, the farthest goes instead."""
    out: NDArray[np.bool_] = ids == own[:, None]
    out[:, -1] |= ~out.any(axis=1)
    return ids[~out].reshape(len(ids), ids.shape[1] - 1)
