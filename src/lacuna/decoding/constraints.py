"""What a translation must contain, should contain, and must not contain, in tokens.

The caller says which tokens continue a word, after which one is open, and which end a sentence. Knows nothing of text,
models and neighbors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lacuna.errors import SettingError

Form = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SentenceConstraints:
    """The constraints of one sentence.

    :param required: For each required term its alternative forms; a term that is required twice has two entries.
    :param banned: Forms that must not occur anywhere.
    :param wanted: Terms that get the bonus as required ones do, but that strict search does not insist on.
    """

    required: tuple[tuple[Form, ...], ...]
    banned: tuple[Form, ...] = ()
    wanted: tuple[tuple[Form, ...], ...] = ()

    def __post_init__(self) -> None:
        if not all(self.required + self.wanted):
            raise SettingError("constraints: got a term without forms; each needs at least one, so leave the term out")
        if not all(self.forms):
            raise SettingError("constraints: got a form without tokens; each needs at least one, so leave the form out")

    @property
    def forms(self) -> list[Form]:
        """All forms, in any role."""
        return [*self.banned, *(form for term in (*self.required, *self.wanted) for form in term)]


@dataclass(frozen=True, slots=True)
class TokenBoundaries:
    """Where words and sentences begin and end. Each array has a value for each token of the vocabulary.

    :param continues: The token begins with a letter or digit and no space before it: it continues a word if one is
        open.
    :param inside: The token ends with a letter or digit: a word is open after it.
    :param closing: The token ends a sentence.
    """

    continues: NDArray[np.bool_]
    inside: NDArray[np.bool_]
    closing: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Constraints:
    """Constraints of a search.

    :param sentences: By sentence number; ``None`` for a sentence without constraints.
    :param bonus: Nats for a form of a term, times the square root of the tokens of the term's shortest form; a part is
        given with each token.
    :param strict: A hypothesis may end only when it contains every required term.
    :param one_sentence: After a ``closing`` token no form begins, and strict search avoids such tokens until all
        required terms are there: a term shall not be appended as a sentence of its own.
    """

    sentences: Sequence[SentenceConstraints | None]
    boundaries: TokenBoundaries
    bonus: float = 0.0
    strict: bool = False
    one_sentence: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.bonus <= 1000:
            raise SettingError(f"bonus must be from 0 to 1000, got {self.bonus}; 0 leaves the choice to the model")

    def check(self, sentences: int) -> None:
        """Raise unless there is an entry for each sentence, with tokens of the vocabulary."""
        if len(self.sentences) != sentences:
            raise SettingError(
                f"constraints: got {len(self.sentences)} for {sentences} sentences; give None for free ones"
            )
        tokens = {token for one in self.sentences if one is not None for form in one.forms for token in form}
        size = len(self.boundaries.continues)
        if tokens and not 0 <= min(tokens) <= max(tokens) < size:
            raise SettingError(
                f"constraints: got tokens from {min(tokens)} to {max(tokens)}; allowed is 0 to {size - 1}"
            )

    def select(self, numbers: Iterable[int]) -> Constraints | None:
        """Return the constraints of some sentences, in this order; ``None`` if all of them are free."""
        chosen = [self.sentences[number] for number in numbers]
        return replace(self, sentences=chosen) if any(one is not None for one in chosen) else None
