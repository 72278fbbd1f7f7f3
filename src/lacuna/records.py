"""Frozen data types that several packages share. They have no behavior beyond conversion from and to text."""

from __future__ import annotations

from dataclasses import dataclass

from lacuna.errors import SettingError


@dataclass(frozen=True, slots=True)
class Origin:
    """The place that a sentence pair comes from, for explanations.

    :param file: The file, as named by the user.
    :param place: Line number (from 1) in a line-based file, otherwise the id of the unit.
    :param tag: An optional label chosen by the user: a client, a document, a batch.
    """

    file: str
    place: str
    tag: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.place}" + (f" [{self.tag}]" if self.tag else "")


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A source sentence and its translation.

    :param id: The caller's own id of the pair, such as the ``tuid`` in TMX: adding it again replaces the pair.
    """

    source: str
    target: str
    origin: Origin
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Languages:
    """A translation direction, written ``de-en`` on the command line."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"

    @classmethod
    def parse(cls, text: str) -> Languages:
        """Parse ``de-en``; regions are written with an underscore (``de-pt_BR``)."""
        source, dash, target = text.partition("-")
        if not (dash and source and target) or "-" in target or source == target:
            raise SettingError(f"languages: got {text!r}; write two different codes with a hyphen, as in de-en")
        return cls(source, target)


@dataclass(frozen=True, slots=True)
class Neighbor:
    """A retrieved entry of a memory.

    :param memory: The name of the memory.
    :param entry: The row of the store.
    :param sentence: The id of its sentence pair.
    :param position: The position of the token in the target of that pair.
    :param token: The value of the entry.
    :param distance: Squared L2 distance between the query and its key.
    :param weight: Its share of p_kNN; the weights of a step sum to 1.
    :param known: Whether the model predicts the value without memory.
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
    """Evidence for one token: ``p = knn_weight * p_knn + (1 - knn_weight) * p_model``."""

    token: str
    p: float
    p_model: float
    p_knn: float
    knn_weight: float
    model_token: str
    neighbors: tuple[Neighbor, ...]


@dataclass(frozen=True, slots=True)
class TranslatedTerm:
    """A term of a glossary that occurs in a source, and what became of it.

    :param source: The term as the glossary writes it.
    :param start: Where it starts in the source.
    :param end: Where it ends in the source.
    :param targets: The translations that the glossary allows; empty if it only forbids some, or if the term is not to
        be translated.
    :param target: The accepted form in the translation; empty if there is none.
    :param target_start: Where that form starts in the translation; -1 if there is none.
    :param enforced: Whether the translation lacked the term until the glossary asked for it.
    """

    source: str
    start: int
    end: int
    targets: tuple[str, ...]
    target: str
    target_start: int
    enforced: bool


@dataclass(frozen=True, slots=True)
class Translation:
    """A translated sentence.

    :param score: The log-probability of the translation divided by its length to the power of the length penalty.
    :param tokens: Number of tokens, the end token included.
    :param steps: The evidence of every token, if requested.
    :param ids: The token ids, the end token included.
    :param without_memory: Whether the model translated alone because a memory did not answer.
    :param flag: Why a person should look at the translation; empty if nothing is wrong.
    :param confidence: Mean probability of its tokens that the model's prediction is right, if requested; ``None``
        without a calibration, without tokens, and for a translation without memory.
    :param terms: The terms of the glossary that occur in the source.
    :param without_glossary: What the translation would be without the glossary, if that differs; otherwise empty.
    """

    source: str
    text: str
    score: float
    tokens: int
    steps: tuple[Step, ...] = ()
    ids: tuple[int, ...] = ()
    without_memory: bool = False
    flag: str = ""
    confidence: float | None = None
    terms: tuple[TranslatedTerm, ...] = ()
    without_glossary: str = ""
