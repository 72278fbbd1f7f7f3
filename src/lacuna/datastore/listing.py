"""The entries of a store one by one, with the sentence each comes from. Knows token numbers, not their texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore.store import Store
from lacuna.errors import SettingError
from lacuna.records import SentencePair


@dataclass(frozen=True, slots=True)
class Entry:
    """What a store knows of one entry.

    :param entry: Its row.
    :param value: The right token.
    :param prediction: The token the model found most probable.
    :param p_gold: The model's probability of the right token.
    :param margin: The knowledge margin, where it was measured.
    :param pair: The sentence pair it comes from, with file and place.
    """

    entry: int
    sentence: int
    position: int
    value: int
    prediction: int
    known: bool
    p_gold: float
    margin: int | None
    pair: SentencePair

    def as_json(self) -> dict[str, Any]:
        """Give the entry as JSON has it."""
        return asdict(self)


def entries_of(
    store: Store,
    *,
    sentence: int | None = None,
    token: int | None = None,
    margins: NDArray[np.uint16] | None = None,
    limit: int = 50,
) -> list[Entry]:
    """List the entries of a sentence, or those with a certain value, or both; at most ``limit``, in order.

    :param margins: Of all entries, if they are to be shown.
    """
    if sentence is None and token is None:
        raise SettingError("sentence, token: got neither; say which entries to list")
    if sentence is not None and not 0 <= sentence < len(store.sentences):
        raise SettingError(f"sentence: got {sentence}; {store.path} has sentences 0 to {len(store.sentences) - 1}")
    chosen = np.ones(store.entries, dtype=np.bool_)
    if sentence is not None:
        chosen &= store.sentence == sentence
    if token is not None:
        chosen &= store.values == token
    return [_entry(store, row, margins) for row in _rows(chosen, limit)]


def _rows(chosen: NDArray[np.bool_], limit: int) -> Sequence[int]:
    if limit < 1:
        raise SettingError(f"limit: got {limit}; allowed is 1 or more")
    rows: list[int] = np.flatnonzero(chosen)[:limit].tolist()
    return rows


def _entry(store: Store, row: int, margins: NDArray[np.uint16] | None) -> Entry:
    sentence = int(store.sentence[row])
    return Entry(
        entry=row,
        sentence=sentence,
        position=int(store.position[row]),
        value=int(store.values[row]),
        prediction=int(store.predictions[row]),
        known=bool(store.known[row]),
        p_gold=float(np.exp(store.log_p_gold[row])),
        margin=None if margins is None else int(margins[row]),
        pair=store.sentences[sentence],
    )
