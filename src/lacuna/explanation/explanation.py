"""An explained translation, the part of the text that each token stands for, and the HTML page that shows it.

Knows nothing of translators and memories.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple

from lacuna.artifacts.pages import fit_for_html, own_file, page_environment
from lacuna.records import Neighbor, TranslatedTerm

ChosenBy = Literal["model", "memory", "glossary"]


@dataclass(frozen=True, slots=True)
class ExplainedNeighbor(Neighbor):
    """A neighbor that voted for a token, with the sentence pair it comes from.

    :param source: The source sentence it comes from.
    :param before: The target sentence up to the token.
    :param word: The token's text in the target sentence; empty for the end of the sentence.
    :param after: The target sentence after the token; ``before + word + after`` is the whole sentence.
    :param origin: The file and line of the pair.
    """

    source: str
    before: str
    word: str
    after: str
    origin: str

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ExplainedToken:
    """Why one token was chosen: ``p = knn_weight * p_knn + (1 - knn_weight) * p_model``.

    :param token: The token in the model's vocabulary.
    :param text: The text that it adds to the translation; the texts of all tokens together are the translation.
    :param p: The final probability of the token.
    :param model_token: The token that the model alone predicts here.
    :param changed: Whether the prediction is another token: the memory changed the word.
    :param margin: The knowledge margin; None without a memory.
    :param margin_cap: The bound of the margin: a margin of ``margin_cap`` means that or more.
    :param confidence: The probability that the model's own choice is right here; None without a calibration.
    :param chosen_by: The glossary if the token is a part of a term that the translation lacked without it. Otherwise
        the memory if it speaks for the token and the model alone predicts another one; otherwise the model.
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
    chosen_by: ChosenBy

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Explanation:
    """A translation with the evidence of every token.

    :param text: The translation.
    :param base_text: The translation of the model alone, without any memory and glossary.
    :param score: The log-probability of the translation, divided by its length to the power of the length penalty.
    :param confidence: The mean of the tokens' confidence; None without a calibration.
    :param without: Ids of the sentences whose entries were excluded from the search.
    :param without_memory: Whether the model translated alone because a memory did not answer.
    :param terms: The terms of the glossary that occur in the source; none for a given translation.
    :param without_glossary: What the translation would be without the glossary, if that differs; otherwise empty.
    """

    source: str
    text: str
    base_text: str
    score: float
    tokens: tuple[ExplainedToken, ...]
    confidence: float | None
    without: tuple[int, ...]
    without_memory: bool = False
    terms: tuple[TranslatedTerm, ...] = ()
    without_glossary: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return asdict(self)


Decode = Callable[[Sequence[int]], str]


class Marked(NamedTuple):
    """A sentence split around one of its tokens; ``before + word + after`` is the whole sentence."""

    before: str
    word: str
    after: str


def pieces(decode: Decode, ids: Sequence[int], text: str) -> list[str]:
    """Return the text that each token adds; joined, they are the text.

    :param text: The text as written or decoded. Parts of it that no token covers belong to adjacent tokens.
    """
    whole = decode(ids)
    # Detokenizing may change earlier characters (a space, a quotation mark): those belong to the token that fixes them.
    ends = list(accumulate((_settled(decode(ids[:count]), whole) for count in range(1, len(ids))), max, initial=0))
    if whole != text:
        changes = _changes(whole, text)
        ends = [0, *accumulate((_moved_end(end, changes) for end in ends[1:]), max)]
    return [text[start:end] for start, end in pairwise([*ends, len(text)])] if ids else []


def spans_of(texts: Sequence[str]) -> list[tuple[int, int]]:
    """Return where the word of each token starts and ends, without the space before it.

    :param texts: As of :func:`pieces`.
    """
    ends = list(accumulate(map(len, texts)))
    return [(end - len(text.lstrip()), end) for end, text in zip(ends, texts, strict=True)]


def mark(decode: Decode, ids: Sequence[int], position: int, text: str) -> Marked:
    """Split a sentence around one of its tokens; the space before the token belongs to ``before``.

    :param text: The sentence as written; tokenization may have changed it in places.
    """
    whole = decode(ids)
    is_last = position + 1 >= len(ids)
    start = _settled(decode(ids[:position]), whole)
    end = len(whole) if is_last else max(start, _settled(decode(ids[: position + 1]), whole))
    start += len(whole[start:end]) - len(whole[start:end].lstrip())
    if whole != text:
        changes = _changes(whole, text)
        lost = [change for change in changes if change.first == change.last == start]
        if start == end and lost and not is_last:  # the model has no token for this text
            start, end = lost[0].new_first, lost[0].new_last
        else:
            start, end = _moved_start(start, changes, text), _moved_end(end, changes)
    return Marked(text[:start], text[start : max(start, end)], text[max(start, end) :])


def _settled(prefix: str, whole: str) -> int:
    """Return the length of the common prefix."""
    differing = (place for place, (a, b) in enumerate(zip(prefix, whole, strict=False)) if a != b)
    return next(differing, min(len(prefix), len(whole)))


class _Change(NamedTuple):
    """A span of one text, and the span of another text that replaces it."""

    first: int
    last: int
    new_first: int
    new_last: int


def _changes(whole: str, text: str) -> list[_Change]:
    return [_Change(*places) for _, *places in SequenceMatcher(None, whole, text, autojunk=False).get_opcodes()]


def _moved_start(place: int, changes: Sequence[_Change], text: str) -> int:
    """Map the start of a span to the other text."""
    for first, last, new_first, new_last in changes:
        if first <= place < last:
            return min(new_first + place - first, new_last)
    return len(text)


def _moved_end(place: int, changes: Sequence[_Change]) -> int:
    """Map the end of a span to the other text."""
    for first, last, new_first, new_last in changes:
        if first < place <= last:
            return new_last if place == last else min(new_first + place - first, new_last)
    return 0


def render_page(explanation: Explanation, *, text_with: str | None = None) -> str:
    """Render the HTML page.

    :param text_with: The translation with the sentences that ``explanation.without`` excludes.
    """
    environment = page_environment("lacuna.explanation")
    page = environment.get_template("explanation.html").render(
        explanation=explanation,
        text_with=text_with,
        style=own_file(environment, "style.css"),
    )
    return fit_for_html(page)
