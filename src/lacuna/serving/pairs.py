"""Checks of sentence pairs that clients send: texts of use, and not too long for the model.

Every pair must be right: clients want to know the number of each pair, so none is dropped silently.
"""

from __future__ import annotations

from collections.abc import Sequence

from lacuna.corpora.cleaning import DEFAULT_CLEANING
from lacuna.datastore.windows import Encoder
from lacuna.records import SentencePair
from lacuna.serving.limits import RequestError, TooLarge


def check_text(pair: SentencePair, where: str) -> None:
    """Refuse a pair that a build would drop.

    :param where: Names the pair in the message.
    """
    fault = DEFAULT_CLEANING.fault(pair.source, pair.target)
    if fault is not None:
        raise RequestError(f"{where}: {fault}; send a sentence and its translation")


def check_fit(model: Encoder, pairs: Sequence[SentencePair]) -> None:
    """Refuse pairs that have too many tokens for the model."""
    sources = model.encode_sources([pair.source for pair in pairs])
    targets = model.encode_targets([pair.target for pair in pairs])
    for pair, source, target in zip(pairs, sources, targets, strict=True):
        if not model.fits(source, target):
            lengths = f"{len(source):,} and {len(target):,} tokens"
            raise TooLarge(f"the pair {_short(pair.source)} has {lengths}, too many for the model; send shorter ones")


def _short(text: str, most: int = 30) -> str:
    return repr(text if len(text) <= most else text[:most] + "...")
