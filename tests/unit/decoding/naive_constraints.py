"""What a whole sequence contains, read the slow way: by the definitions, and without an automaton."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lacuna.decoding import Constraints, Form, SentenceConstraints, TokenBoundaries


def boundaries(
    size: int, *, continues: Sequence[int] = (), inside: Sequence[int] = (), closing: Sequence[int] = ()
) -> TokenBoundaries:
    return TokenBoundaries(*(np.isin(np.arange(size), list(each)) for each in (continues, inside, closing)))


@dataclass(frozen=True)
class Reading:
    forms: tuple[Form, ...]  # those that count, in the order of the sequence
    complete: bool
    bonus: float
    banned: bool


def _occurs(body: Sequence[int], form: Form, start: int, words: TokenBoundaries) -> bool:
    end = start + len(form)
    if tuple(body[start:end]) != form:
        return False
    begins_in_a_word = start > 0 and words.inside[body[start - 1]] and words.continues[form[0]]
    ends_in_a_word = end < len(body) and words.inside[form[-1]] and words.continues[body[end]]
    return not begins_in_a_word and not ends_in_a_word


def _assignable(forms: Sequence[Form], terms: Sequence[Sequence[Form]]) -> bool:
    """Each form can have a term of its own."""
    choices = itertools.permutations(range(len(terms)), len(forms))
    return any(all(form in terms[term] for form, term in zip(forms, chosen, strict=True)) for chosen in choices)


def read(body: Sequence[int], one: SentenceConstraints, constraints: Constraints) -> Reading:
    """Read a sequence without its end token."""
    words = constraints.boundaries
    terms = (*one.required, *one.wanted)
    forms = {form for term in terms for form in term}
    counted: list[Form] = []
    start = 0
    while start < len(body):
        fitting = [form for form in forms if _occurs(body, form, start, words) and _assignable([*counted, form], terms)]
        if fitting:
            counted.append(max(fitting, key=len))
            start += len(counted[-1])
        elif constraints.one_sentence and words.closing[body[start]]:
            break
        else:
            start += 1
    complete = any(_assignable(chosen, one.required) for chosen in itertools.combinations(counted, len(one.required)))
    banned = any(_occurs(body, form, place, words) for form in one.banned for place in range(len(body)))
    bonus = sum(math.sqrt(min(len(form) for term in terms if own in term for form in term)) for own in counted)
    return Reading(tuple(counted), complete, constraints.bonus * bonus, banned)
