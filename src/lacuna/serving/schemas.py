"""What clients send and get, as far as it is not a record of another room. FastAPI documents and checks it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

MOST_NEIGHBORS = 64
MOST_BEAMS = 8
MOST_WITHOUT = 100

SentenceNumber = Annotated[int, Field(ge=0, lt=2**31)]


class _Sent(BaseModel):
    """A body as clients send it: a field that nobody knows is an error, not silence."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class ErrorBody(BaseModel):
    """What went wrong, and the way out."""

    error: str


class VanillaBody(_Sent):
    """Vanilla kNN-MT with settings of the client's own."""

    k: int = Field(default=8, ge=1, le=MOST_NEIGHBORS, description="Neighbors per token.")
    knn_weight: float = Field(default=0.5, ge=0, le=1, description="Share of the memory: 0 is the model alone.")
    temperature: float = Field(default=10.0, ge=1e-3, le=1e6, description="Divides squared distances.")


class _Choosing(_Sent):
    """The choice that all requests to the model share."""

    memories: list[str] | None = Field(
        default=None,
        max_length=64,
        description="Names of memories, searched together. Left out: the server's first. Empty: the model alone.",
    )
    combiner: str | VanillaBody | None = Field(
        default=None,
        description="The name of a combiner, or settings. Left out: the one with the name of the first memory chosen.",
    )
    beam: int | None = Field(default=None, ge=1, le=MOST_BEAMS, description="Beam width; left out: 5.")


class TranslateBody(_Choosing):
    """Texts to translate. Each line of a text is translated as a sentence; line breaks are kept."""

    texts: list[str] = Field(min_length=1, description="One text, or many.", examples=[["Klicken Sie auf OK."]])


class ExplainBody(_Choosing):
    """A sentence to translate and to explain."""

    text: str = Field(min_length=1, description="One sentence.", examples=["Klicken Sie auf OK."])
    without: list[SentenceNumber] = Field(
        default=[],
        max_length=MOST_WITHOUT,
        description="Sentences of the memories whose entries must not be found: what would have been said then?",
    )


class Translated(BaseModel):
    """A translated text.

    :param score: Mean log-probability of the tokens, over all lines; 0 for a blank text.
    """

    text: str
    score: float
    tokens: int


class TranslateAnswer(BaseModel):
    """Translations, one for each text, in order."""

    translations: list[Translated]
    memories: list[str]
    combiner: str | None = Field(description="The name of the combiner; null for settings of the client's own.")


class MemoryInfo(BaseModel):
    """A memory that clients may choose."""

    name: str
    entries: int
    sentences: int
    combiner: str | None = Field(description="The combiner that goes with it; null for vanilla kNN-MT.")


class LimitsInfo(BaseModel):
    """What one request may ask for."""

    max_characters: int
    max_texts: int
    max_body_bytes: int
    max_seconds: float


class Info(BaseModel):
    """What this server has."""

    version: str
    model: str
    source: str | None
    target: str | None
    memories: list[MemoryInfo]
    combiners: list[str]
    calibrated: bool = Field(description="Whether explanations have a confidence.")
    limits: LimitsInfo


class Health(BaseModel):
    """Whether the server works."""

    status: Literal["ok"]
