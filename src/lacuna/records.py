"""The frozen types that cross borders between rooms. They hold data and know nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from lacuna.errors import SettingError


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a sentence pair came from, so that an explanation can name it.

    :param file: The file as the user named it.
    :param place: Line number (from 1) of a line-based file, otherwise the unit's own id.
    :param tag: An optional label of the user's: a client, a document, a batch.
    """

    file: str
    place: str
    tag: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.place}" + (f" [{self.tag}]" if self.tag else "")


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A source sentence and its translation."""

    source: str
    target: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Languages:
    """A translation direction, written ``de-en`` on the command line."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"

    @classmethod
    def parse(cls, text: str) -> Languages:
        """Read ``de-en``; regions are written with an underscore (``de-pt_BR``)."""
        source, dash, target = text.partition("-")
        if not (dash and source and target) or "-" in target or source == target:
            raise SettingError(f"languages: got {text!r}; write two different codes with a dash, as in de-en or zh-en")
        return cls(source, target)


@dataclass(frozen=True, slots=True)
class Neighbor:
    """An entry of a memory that voted for a token.

    :param memory: The name of the memory.
    :param entry: The row of the store.
    :param sentence: The sentence pair it comes from.
    :param position: The place of the token in that pair's target.
    :param token: The token it votes for.
    :param distance: Squared L2 between the query and its key.
    :param weight: Its share of p_kNN; the weights of a step sum to 1.
    :param known: Whether the model alone would have been right there.
    """

    memory: str
    entry: int
    sentence: int
    position: int
    token: str
    distance: float
    weight: float
    known: bool


@dataclass(frozen=True, slots=True)
class Step:
    """Why one token was chosen: ``p = knn_weight * p_knn + (1 - knn_weight) * p_model``."""

    token: str
    p: float
    p_model: float
    p_knn: float
    knn_weight: float
    model_token: str
    neighbors: tuple[Neighbor, ...]


@dataclass(frozen=True, slots=True)
class Translation:
    """A translated sentence.

    :param score: The log-probability of the translation over its length to the power of the length penalty.
    :param tokens: How many tokens were written, the end token included.
    :param steps: The evidence of every token, where it was asked for.
    :param ids: The tokens by number, the end token included.
    """

    source: str
    text: str
    score: float
    tokens: int
    steps: tuple[Step, ...] = ()
    ids: tuple[int, ...] = ()
