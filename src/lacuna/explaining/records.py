"""What an explanation says of a translation, its tokens and their neighbors.

Holds results; knows neither how they are found nor how they are shown.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ExplainedNeighbor:
    """An entry of a memory that voted for a token, with the sentence pair it comes from.

    :param memory: The name of the memory.
    :param entry: The row of the store.
    :param sentence: The id of its sentence pair.
    :param position: The place of its token in that pair's target.
    :param token: The token it votes for, as the model writes it.
    :param distance: Squared L2 between the query and its key.
    :param weight: Its share of p_kNN; the weights of a token's neighbors sum to 1.
    :param known: Whether the model alone would have been right there.
    :param source: The source sentence it comes from.
    :param before: The target sentence up to the token.
    :param word: The token's text in the target sentence; empty for the end of the sentence.
    :param after: The target sentence behind the token, so that ``before + word + after`` is all of it.
    :param origin: The file and line of the pair.
    """

    memory: str
    entry: int
    sentence: int
    position: int
    token: str
    distance: float
    weight: float
    known: bool
    source: str
    before: str
    word: str
    after: str
    origin: str

    def as_json(self) -> dict[str, Any]:
        """Return it for machines."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ExplainedToken:
    """Why one token was chosen: ``p = knn_weight * p_knn + (1 - knn_weight) * p_model``.

    :param token: The token as the model writes it.
    :param text: What it adds to the translation; the texts of all tokens together are the translation.
    :param p: The probability of the token in the end.
    :param model_token: What the model alone would have said here.
    :param changed: Whether that is another token: the memory changed the word.
    :param margin: How many of the nearest entries are known before the first unknown one; None without a memory.
    :param margin_cap: Where counting stopped: a margin of so many means so many or more.
    :param confidence: The probability that the model's own choice is right here; None without a calibration.
    """

    token: str
    text: str
    p: float
    p_model: float
    p_knn: float
    knn_weight: float
    model_token: str
    changed: bool
    margin: int | None
    margin_cap: int
    confidence: float | None
    neighbors: tuple[ExplainedNeighbor, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it for machines."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Explanation:
    """A translation with the evidence of every token.

    :param text: The translation.
    :param base_text: What the model says without any memory.
    :param score: The log-probability of the translation over its length to the power of the length penalty.
    :param confidence: The mean of the tokens' confidence; None without a calibration.
    :param without: Ids of the sentences whose entries were kept from being found.
    """

    source: str
    text: str
    base_text: str
    score: float
    tokens: tuple[ExplainedToken, ...]
    confidence: float | None
    without: tuple[int, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it for machines."""
        return asdict(self)
