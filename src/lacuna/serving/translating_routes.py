"""The routes that translate texts: translations, explanations, matches in memories, and the language of a text."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from lacuna.combiners import Vanilla
from lacuna.decoding import BeamSettings
from lacuna.documents.language_detection import Detected, detect
from lacuna.explanation import Explanation
from lacuna.memory import Match
from lacuna.serving.access import Access
from lacuna.serving.api import MAX_TERMS, PairBody, RequestBody, SentenceNumber, TermBody, closed_routes, errors
from lacuna.serving.client_terms import check
from lacuna.serving.engine import TranslationOptions
from lacuna.serving.served_directions import Directions, sample
from lacuna.serving.service import Service
from lacuna.serving.translated_text import TranslatedText

MAX_NEIGHBORS = 64
MAX_BEAMS = 8
MAX_WITHOUT = 100
MAX_PAIRS = 20
MAX_MEMORIES = 64
MAX_ALTERNATIVES = 5


class VanillaBody(RequestBody):
    """Vanilla kNN-MT with settings of the client."""

    k: int = Field(default=8, ge=1, le=MAX_NEIGHBORS, description="Number of neighbors per token.")
    knn_weight: float = Field(default=0.5, ge=0, le=1, description="Share of the memory; 0 is the model alone.")
    temperature: float = Field(default=10.0, ge=1e-3, le=1e6, description="Divides squared distances.")


class _SelectionBody(RequestBody):
    """Which memories and which direction a request is for."""

    memories: list[str] | None = Field(
        default=None,
        max_length=MAX_MEMORIES,
        description=(
            "Names of memories of one direction, searched together. Default: the first of the direction. "
            "Empty: the model alone."
        ),
    )
    source: str | None = Field(default=None, max_length=32, description="Source language.", examples=["de"])
    target: str | None = Field(default=None, max_length=32, description="Target language.", examples=["en"])


class _OptionsBody(_SelectionBody):
    """Options of all requests to the model."""

    combiner: str | VanillaBody | None = Field(
        default=None,
        description="Name of a combiner, or settings. Default: the combiner with the name of the first memory.",
    )
    beam: int | None = Field(default=None, ge=1, le=MAX_BEAMS, description="Beam width; default: 5.")
    pairs: list[PairBody] = Field(
        default=[],
        max_length=MAX_PAIRS,
        description="Example pairs for this request only, searched together with the memories and not stored.",
    )
    glossary: str | None = Field(
        default=None,
        max_length=64,
        description="Name of a glossary; none: no glossary. Default: the one with the name of the first memory.",
    )
    terms: list[TermBody] = Field(
        default=[],
        max_length=MAX_TERMS,
        description="Terms for this request only, instead of those of the glossary with the same source.",
    )


class TranslateBody(_OptionsBody):
    """Texts to translate, sentence by sentence; white space is kept."""

    texts: list[str] = Field(min_length=1, description="One or more texts.", examples=[["Klicken Sie auf OK."]])
    source: str | None = Field(
        default=None, max_length=32, description="Source language, or auto to detect it.", examples=["de"]
    )
    format: Literal["text", "html"] = Field(default="text", description="In HTML, tags stay.")
    lines: bool = Field(default=False, description="Each line is one sentence.")
    confidence: bool = Field(default=False, description="Compute the confidence, which takes another pass.")
    alternatives: int = Field(
        default=0, ge=0, le=MAX_ALTERNATIVES, description="Number of other translations of texts of one sentence."
    )


class ExplainBody(_OptionsBody):
    """A sentence to translate and explain."""

    text: str = Field(min_length=1, description="One sentence.", examples=["Klicken Sie auf OK."])
    without: list[SentenceNumber] = Field(
        default=[],
        max_length=MAX_WITHOUT,
        description="Numbers of memory sentences to leave out, to see the translation without them.",
    )


class MatchesBody(_SelectionBody):
    """A text to look up in memories."""

    text: str = Field(min_length=1, description="A sentence or segment.", examples=["Klicken Sie auf OK."])


class DetectBody(RequestBody):
    """A text whose language is wanted."""

    text: str = Field(description="One sentence or more.", examples=["Klicken Sie auf OK."])


class TranslatedSentence(BaseModel):
    """A sentence of a text. All texts and gaps together are the translation."""

    source: str
    text: str
    gap: str = Field(description="White space after it.")
    confidence: float | None
    flag: str = Field(description="Why a person should look at it; empty if all is well.")
    match: str = Field(
        description="Name of the memory that has this translation of the same sentence, a person's, which has no "
        "confidence and no flag; empty otherwise. Looked up if the confidence is asked for, or if there is a flag."
    )


class TranslatedTermAnswer(BaseModel):
    """A term of a source, and what became of it. Places are in the whole text, in characters; -1 in HTML."""

    source: str = Field(description="The term as the glossary writes it.")
    start: int
    end: int
    targets: list[str] = Field(description="The translations that the glossary allows.")
    target: str = Field(description="The accepted form in the translation; empty if there is none.")
    target_start: int = Field(description="Where that form is in the translation; -1 if there is none.")
    enforced: bool = Field(description="Whether the translation lacked the term until the glossary asked for it.")


class Translated(BaseModel):
    """A translated text.

    :param score: Mean log-probability of the tokens, over all sentences; 0 for a blank text.
    """

    text: str
    score: float
    tokens: int
    without_memory: bool = Field(
        default=False, description="True if a memory did not answer, and the model translated a sentence alone."
    )
    confidence: float | None = Field(
        description="Null if not asked for, without a calibration, or for a translation of a memory."
    )
    flag: str = Field(description="Why a person should look at it; empty if all is well.")
    sentences: list[TranslatedSentence] = Field(default=[], description="Not for HTML.")
    alternatives: list[str] = Field(default=[], description="If asked for.")
    terms: list[TranslatedTermAnswer] = Field(description="The terms of the glossary in the text.")
    without_glossary: str | None = Field(description="The text without the glossary; null if it is the same.")


class DetectedLanguage(BaseModel):
    """A language that a text may be in."""

    language: str
    confidence: float = Field(description="Probability; 0 if the language could not be detected.")


class TranslateAnswer(BaseModel):
    """One translation per text, in order."""

    translations: list[Translated]
    memories: list[str]
    combiner: str | None = Field(description="Name of the combiner; null for settings of the client, or safe ones.")
    source: str | None = Field(description="The source language of the model.")
    target: str | None = Field(description="The target language of the model.")
    detected: DetectedLanguage | None = Field(default=None, description="If the source is auto.")


class MatchAnswer(BaseModel):
    """A sentence of a memory that equals or resembles a text.

    :param text: The translation, with the placeholders of the text if the match is exact.
    """

    memory: str
    sentence: int
    source: str
    target: str
    text: str
    similarity: float = Field(description="1 for an exact match.")


class MatchesAnswer(BaseModel):
    """The best matches, best first."""

    matches: list[MatchAnswer]


class DetectAnswer(BaseModel):
    """The languages that a text may be in, the most likely first; none for a text without letters."""

    languages: list[DetectedLanguage]


def make_translating_routes(directions: Directions, access: Access) -> APIRouter:
    """Return the routes that translate texts."""
    routes = closed_routes(access)

    @routes.post(
        "/translate",
        tags=["translate"],
        responses=errors(400, 413, 422, 503, 504),
        response_model_exclude_unset=True,
    )
    async def translate(body: TranslateBody) -> TranslateAnswer:
        """Translate one or more texts with the selected memories."""
        service, detected = await directions.choose(body.memories, body.source, body.target, body.texts)
        options = _options(service, body)
        if body.format == "html":
            done = await service.translate_html(body.texts, options, confidence=body.confidence)
        else:
            done = await service.translate(body.texts, options, lines=body.lines, confidence=body.confidence)
        translations = [_translated(text, with_sentences=body.format == "text") for text in done]
        if body.alternatives:
            others = await service.alternatives(done if body.format == "text" else [], options, body.alternatives)
            for number, translation in enumerate(translations):
                translation.alternatives = list(others[number].texts) if others else []
                translation.without_memory |= bool(others) and others[number].without_memory
        languages = service.engine.model.languages
        answer = TranslateAnswer(
            translations=translations,
            memories=options.names,
            combiner=options.combiner if isinstance(options.combiner, str) else None,
            source=languages and languages.source,
            target=languages and languages.target,
        )
        if detected is not None:
            answer.detected = _detected(detected)
        return answer

    @routes.post("/explain", tags=["translate"], responses=errors(400, 413, 422, 503, 504))
    async def explain(body: ExplainBody) -> Explanation:
        """Translate a sentence and return the evidence of every token."""
        service, _ = await directions.choose(body.memories, body.source, body.target, [body.text])
        return await service.explain(body.text, _options(service, body), body.without)

    @routes.post("/matches", tags=["translate"], responses=errors(400, 413, 422))
    async def matches(body: MatchesBody) -> MatchesAnswer:
        """Find sentences of memories that equal or resemble a text: at most 3, with a similarity of 0.7 or more."""
        service, _ = await directions.choose(body.memories, body.source, body.target, [body.text])
        service.check_texts([body.text])
        segment_matches = service.matches(service.resolve_options(body.memories).memories)
        near = await asyncio.to_thread(segment_matches.near, body.text)
        return MatchesAnswer(matches=[_match(match) for match in near])

    @routes.post("/detect", tags=["translate"], responses=errors(400, 413, 422))
    async def find_language(body: DetectBody) -> DetectAnswer:
        """Tell the language of a text."""
        directions.services[0].check_texts([body.text])
        detected = await asyncio.to_thread(detect, sample([body.text]))
        return DetectAnswer(languages=[_detected(language) for language in detected])

    return routes


def _options(service: Service, body: _OptionsBody) -> TranslationOptions:
    asked = body.combiner
    combiner = Vanilla(asked.k, asked.knn_weight, asked.temperature) if isinstance(asked, VanillaBody) else asked
    beam = BeamSettings(beam=body.beam) if body.beam else None
    pairs = [pair.as_pair("request", str(number)) for number, pair in enumerate(body.pairs, start=1)]
    terms = check([term.as_term() for term in body.terms]).terms
    return service.resolve_options(body.memories, combiner, beam, pairs, body.glossary, terms)


def _translated(translated: TranslatedText, *, with_sentences: bool) -> Translated:
    whole = translated.paragraph
    answer = Translated(
        text=translated.text,
        score=whole.score,
        tokens=whole.tokens,
        without_memory=whole.without_memory,
        confidence=whole.confidence,
        flag=translated.flag,
        terms=[TranslatedTermAnswer(**{**asdict(term), "targets": list(term.targets)}) for term in translated.terms],
        without_glossary=translated.without_glossary or None,
    )
    if with_sentences:
        answer.sentences = [
            TranslatedSentence(
                source=part.source,
                text=part.written.text,
                gap=part.written.gap,
                confidence=part.translation.confidence if part.translation else None,
                flag=part.translation.flag if part.translation else "",
                match=part.match,
            )
            for part in whole.sentences
        ]
    return answer


def _detected(detected: Detected) -> DetectedLanguage:
    return DetectedLanguage(language=detected.language, confidence=detected.confidence)


def _match(match: Match) -> MatchAnswer:
    return MatchAnswer(
        memory=match.memory,
        sentence=match.sentence,
        source=match.pair.source,
        target=match.pair.target,
        text=match.text,
        similarity=match.similarity,
    )
