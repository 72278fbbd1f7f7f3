"""The memory protocol: all that translating, explaining, editing and serving need of a memory, whatever its backend.

A memory in a folder (:mod:`lacuna.memory.folder_memory`) is one state of its files, and an edit makes the next one:
:meth:`Memory.latest`. One in Milvus (:mod:`lacuna.memory.milvus_memory`) is always in the state of its server. What
reads whole columns, as pruning does, needs files: :attr:`Memory.store`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lacuna.corpora.cleaning import DEFAULT_CLEANING, Cleaning
from lacuna.datastore import Entry, Store
from lacuna.datastore.decoded_windows import TeacherForcingModel
from lacuna.datastore.manifest import KeyMaker, ModelRecord
from lacuna.errors import NotFoundError, SettingError
from lacuna.memory.editing import EditReport
from lacuna.memory.lookup import MemorySentences, Selection
from lacuna.memory.matches import SourceTable
from lacuna.memory.overview import KeyMap, Overview, StoredSentence, show_sentence
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair

ColumnName = Literal["values", "predictions", "known", "log_p_gold", "sentence", "position"]


class FoundEntries(NamedTuple):
    """The nearest entries of each query in one memory, nearest first: (queries, k) each.

    An index finds a :class:`~lacuna.index.base.Neighborhood`, distances and numbers only, because it has nothing but
    keys. A memory adds what a combiner needs, because Milvus returns all of it in one answer.

    :param distances: Squared L2; infinity where there is no neighbor.
    :param ids: Numbers of entries; -1 where there is no neighbor.
    :param values: Their values; -1 where there is no neighbor.
    :param weights: How many entries each one represents; ``None`` for one each.
    """

    distances: NDArray[np.float32]
    ids: NDArray[np.int64]
    values: NDArray[Any]
    weights: NDArray[Any] | None


class Memory(ABC):
    """Entries with their sentence pairs, which can be searched and edited. Several threads may use it at once.

    :ivar name: Its name in explanations and requests.
    """

    name: str

    # --- What it is ---------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def place(self) -> str:
        """Its folder or its address, for messages."""

    @property
    @abstractmethod
    def folders(self) -> tuple[Path, ...]:
        """The folders that other processes must see to open it."""

    @property
    @abstractmethod
    def model(self) -> ModelRecord:
        """The model that computed the keys."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Dimension of a key."""

    @property
    @abstractmethod
    def entries(self) -> int:
        """Number of entries; on a server, a second ago at most."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """What tells its content from that of others: that of its store, or of the store that was published."""

    @property
    @abstractmethod
    def key_variance(self) -> float:
        """Mean squared distance of the keys from their mean, of a sample: the scale of its distances."""

    @property
    @abstractmethod
    def index_kind(self) -> str:
        """The kind of its index, as in ``lacuna index``."""

    @property
    @abstractmethod
    def is_edited(self) -> bool:
        """Whether this state differs from the store that was built."""

    @property
    @abstractmethod
    def sentences(self) -> MemorySentences:
        """The sentence pairs."""

    @property
    @abstractmethod
    def store(self) -> Store:
        """The files with all columns.

        :raises StoreError: It has no files of its own: it is in Milvus.
        """

    def check_model(self, model: KeyMaker) -> None:
        """Refuse a model whose keys are not comparable with those of the memory: another model or direction."""
        self.model.check(model, self.place)

    # --- Searching and reading ----------------------------------------------------------------------------------------

    @abstractmethod
    def search(self, queries: NDArray[np.float32], k: int) -> FoundEntries:
        """Find the ``k`` nearest entries of each query; shape (queries, dimension)."""

    @abstractmethod
    def columns(self, entries: NDArray[np.int64], *names: ColumnName) -> dict[str, NDArray[Any]]:
        """Read columns of given entries, by name: (entries,) each."""

    @abstractmethod
    def keys(self, entries: NDArray[np.int64]) -> NDArray[np.float16]:
        """Read the keys of given entries: (entries, dimension)."""

    @abstractmethod
    def keeping(self, keep: NDArray[np.bool_], weights: NDArray[np.float32] | None = None) -> Memory:
        """Return the memory with only some entries found.

        :param keep: Whether an entry may be found, for each entry of :attr:`store`.
        :param weights: How many entries each one represents, instead of those of the store.
        :raises StoreError: As :attr:`store`.
        """

    @abstractmethod
    def excluding(self, sentences: Collection[int]) -> Memory:
        """Return the memory without the entries of these sentences."""

    @abstractmethod
    def tagged(self, tag: str) -> Memory:
        """Return the memory with only the entries of pairs with this label.

        :raises SettingError: There are none.
        """

    @abstractmethod
    def reopening(self) -> tuple[Callable[..., Memory], tuple[object, ...]]:
        """Say how another process opens this memory, with the same entries; see :class:`~lacuna.workers.Reopened`."""

    # --- Editing ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def add(
        self,
        pairs: Iterable[SentencePair],
        model: TeacherForcingModel,
        *,
        cleaning: Cleaning | None = DEFAULT_CLEANING,
        merge: bool = True,
        prune: bool = False,
        progress: Progress = SILENT,
    ) -> EditReport:
        """Add sentence pairs.

        A pair with an id replaces the pair that has the same id. A pair that is there already is not added again. A
        pair that is too long for the model is skipped, and replaces nothing.

        :param model: The model that the memory was built with.
        :param cleaning: Drops pairs of no use, as ``lacuna build`` does; ``None`` adds every pair as it is.
        :param merge: Then do as :meth:`merge_segments`.
        :param prune: Keep only the entries that PLAC would keep, with the settings that the memory was pruned with.
        """

    @abstractmethod
    def forget(self, selection: Selection, *, dry_run: bool = False, receipt: Path | None = None) -> EditReport:
        """Forget the selected sentences: no search and no listing finds them any more.

        :param dry_run: Only return what would be forgotten.
        :param receipt: File for a receipt, see :mod:`lacuna.memory.receipts`.
        """

    @abstractmethod
    def replace(
        self, sentence: int, target: str, model: TeacherForcingModel, *, progress: Progress = SILENT
    ) -> EditReport:
        """Replace the translation of a sentence; the corrected pair gets another number."""

    @abstractmethod
    def numbers_of(self, pairs: Sequence[SentencePair]) -> tuple[int, ...]:
        """Return the sentence number of each pair, all of which are in the memory."""

    @abstractmethod
    def merge_segments(self) -> None:
        """Merge small segments where that makes later searches faster; a server does so by itself."""

    # --- States -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def has_changed(self) -> bool:
        """Tell whether :meth:`latest` has another state; quick enough for every request."""

    @abstractmethod
    def latest(self) -> Memory:
        """Return the latest state, completely read; what has not changed is taken from this one.

        A state that cannot be opened is an error once, and not tried again.
        """

    @abstractmethod
    def load(self, *, for_edits: bool = False) -> None:
        """Read now what would be read on first use.

        :param for_edits: Also what edits read.
        """

    # --- Looking into it ----------------------------------------------------------------------------------------------

    @abstractmethod
    def overview(self, token_texts: Sequence[str]) -> Overview:
        """Return the statistics.

        :param token_texts: Text of every token of the vocabulary.
        """

    @abstractmethod
    def key_map(self, token_texts: Sequence[str]) -> KeyMap:
        """Return a map of a sample of the keys."""

    @abstractmethod
    def entries_of(self, sentence: int) -> list[Entry]:
        """Return the entries of a sentence, in target order."""

    @abstractmethod
    def sources(self) -> SourceTable:
        """Return the sentences by their sources, for :class:`~lacuna.memory.SegmentMatches`."""

    def pair(self, sentence: int) -> SentencePair:
        """Return a sentence pair.

        :raises NotFoundError: It does not exist, or was forgotten.
        """
        sentences = self.sentences
        if sentence in sentences:
            return sentences[sentence]
        if not 0 <= sentence < len(sentences):
            has = f"has sentences 0 to {len(sentences) - 1}" if len(sentences) else "is empty"
            raise NotFoundError(f"sentence: got {sentence}; {self.name} {has}")
        raise NotFoundError(f"sentence: {sentence} of {self.name} was forgotten; choose another")

    def stored_sentence(self, sentence: int, token_texts: Sequence[str]) -> StoredSentence:
        """Return a sentence pair and its entries.

        :raises NotFoundError: It does not exist, or was forgotten.
        """
        return show_sentence(self.name, sentence, self.pair(sentence), self.entries_of(sentence), token_texts)


def no_tag(tag: str, place: str) -> SettingError:
    """Return the error of a label that no pair of a memory has."""
    return SettingError(f"tag: got {tag!r}, but no sentence of {place} has it; name a label that was given to pairs")
