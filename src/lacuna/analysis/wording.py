"""Tokens as a person reads them: normal text, in which single tokens can be found again.

A tokenizer turns tokens into text only as a whole, so where a token ends is found by decoding all that is before it.
Knows nothing of stores and margins.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, groupby

from lacuna.analysis.latex import CLOSE, OPEN
from lacuna.models import Model

_PART = "-"  # joins the parts of a word


def underline(model: Model, ids: Sequence[int], chosen: Sequence[bool]) -> str:
    """Write a translation with some of its tokens underlined; neighbors share one line."""
    text, ends = _token_ends(model, ids)
    shown = [piece for piece in zip([0, *ends], ends, chosen, strict=False) if piece[0] < piece[1]]
    written = ""
    for marked, run in groupby(shown, key=lambda piece: piece[2]):
        pieces = list(run)
        part = readable(text[pieces[0][0] : pieces[-1][1]])
        space = part[: len(part) - len(part.lstrip())]
        written += f"{space}{OPEN}{part[len(space) :]}{CLOSE}" if marked else part
    return written


def before_and_token(model: Model, before: Sequence[int], token: int) -> tuple[str, str]:
    """Give the text before a token, and the token; a hyphen shows where the token goes on with a word."""
    text = model.decode(before)
    whole = model.decode([*before, token])
    if token == model.eos_id:
        return readable(text), "(end of sentence)"
    rest = whole[len(text) :]
    if not whole.startswith(text) or not rest.strip():
        return readable(text), readable(model.token_text(token))
    part = _PART if _inside_word(text[-1:]) and _inside_word(rest[0]) else ""
    return readable(text + part), readable(part + rest.strip())


def readable(text: str) -> str:
    """Take out of a text what a table cannot hold: its own marks, and what UTF-8 has no room for."""
    return text.replace(OPEN, "[[").replace(CLOSE, "]]").encode("utf-8", "replace").decode("utf-8")


def _token_ends(model: Model, ids: Sequence[int]) -> tuple[str, list[int]]:
    """Return the text, and where in it each token ends."""
    text = model.decode(ids)
    shared = [_shared_start(text, model.decode(ids[:count])) for count in range(1, len(ids))]
    return text, list(accumulate([*shared, len(text)], max))


def _shared_start(one: str, other: str) -> int:
    letters = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(letters) if a != b), min(len(one), len(other)))


def _inside_word(character: str) -> bool:
    """Tell letters of scripts with spaces between words: Chinese ones have no case."""
    return character.isdigit() or character.lower() != character.upper()
