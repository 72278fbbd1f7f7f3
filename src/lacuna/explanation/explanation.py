"""What an explanation says of a translation, which part of the text a token stands for, and the page that shows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from lacuna.pages import fit_for_html, own_file, page_environment


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


Decode = Callable[[Sequence[int]], str]


class Marked(NamedTuple):
    """A sentence cut round one of its tokens: ``before + word + after`` is all of it."""

    before: str
    word: str
    after: str


def pieces(decode: Decode, ids: Sequence[int], text: str) -> list[str]:
    """Return what each token adds to the text; together they are the text.

    :param text: As it was written or decoded; where the tokens lack some of it, that counts as part of its neighbors.
    """
    whole = decode(ids)
    # Detokenizing may change what came before (a space, a quotation mark): what has not settled yet counts later.
    ends = list(accumulate((_settled(decode(ids[:count]), whole) for count in range(1, len(ids))), max, initial=0))
    if whole != text:
        changes = _changes(whole, text)
        ends = [0, *accumulate((_moved_end(end, changes) for end in ends[1:]), max)]
    return [text[start:end] for start, end in pairwise([*ends, len(text)])] if ids else []


def mark(decode: Decode, ids: Sequence[int], position: int, text: str) -> Marked:
    """Cut a sentence round one of its tokens; the space before it stays with what is before.

    :param text: The sentence as it was written, which tokens may have changed in places.
    """
    whole = decode(ids)
    is_last = position + 1 >= len(ids)
    start = _settled(decode(ids[:position]), whole)
    end = len(whole) if is_last else max(start, _settled(decode(ids[: position + 1]), whole))
    start += len(whole[start:end]) - len(whole[start:end].lstrip())
    if whole != text:
        changes = _changes(whole, text)
        lost = [change for change in changes if change.first == change.last == start]
        if start == end and lost and not is_last:  # the model has no token for what stands here
            start, end = lost[0].new_first, lost[0].new_last
        else:
            start, end = _moved_start(start, changes, text), _moved_end(end, changes)
    return Marked(text[:start], text[start : max(start, end)], text[max(start, end) :])


def _settled(prefix: str, whole: str) -> int:
    """Count the characters at the beginning that are the same."""
    differing = (place for place, (a, b) in enumerate(zip(prefix, whole, strict=False)) if a != b)
    return next(differing, min(len(prefix), len(whole)))


class _Change(NamedTuple):
    """A stretch of one text, and the stretch of another that stands in its place."""

    first: int
    last: int
    new_first: int
    new_last: int


def _changes(whole: str, text: str) -> list[_Change]:
    return [_Change(*places) for _, *places in SequenceMatcher(None, whole, text, autojunk=False).get_opcodes()]


def _moved_start(place: int, changes: Sequence[_Change], text: str) -> int:
    """Find where a part that begins here begins in the other text."""
    for first, last, new_first, new_last in changes:
        if first <= place < last:
            return min(new_first + place - first, new_last)
    return len(text)


def _moved_end(place: int, changes: Sequence[_Change]) -> int:
    """Find where a part that ends here ends in the other text."""
    for first, last, new_first, new_last in changes:
        if first < place <= last:
            return new_last if place == last else min(new_first + place - first, new_last)
    return 0


def render_page(explanation: Explanation, *, text_with: str | None = None) -> str:
    """Write the page.

    :param text_with: The translation with the sentences that ``explanation.without`` leaves out.
    """
    environment = page_environment("lacuna.explanation")
    page = environment.get_template("explanation.html").render(
        explanation=explanation,
        text_with=text_with,
        style=own_file(environment, "style.css"),
    )
    return fit_for_html(page)
