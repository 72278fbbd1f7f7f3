"""What a step of the search costs with constraints: time outside of the model, and of the model, with and without.

Each sentence gets up to three terms: words of its reference that the model alone does not use. Plain, soft and strict
search translate the same sentences in turns, on one thread, one batch after the other. Prints one JSON object for each:
milliseconds of the processor per step (medians), steps, the mean score of the best hypotheses, and the share of the
terms in them.

    python benchmarks/constraints.py CORPUS [--model MODEL] [--sentences 128] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Sequence
from itertools import islice
from statistics import median

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna import load_model, read_corpus
from lacuna.decoding import (
    BatchCapacity,
    BeamSettings,
    Constraints,
    Form,
    Hypothesis,
    SentenceConstraints,
    TokenBoundaries,
    search,
)
from lacuna.likely_tokens import NextTokens
from lacuna.models.adapter import Model
from lacuna.models.stepping import ModelScorer, ModelState

TERMS = 3
MARK = "\u2581"  # what the tokens of SentencePiece have for a space


class TimedScorer(ModelScorer):
    """Notes the time in the model."""

    seconds, steps, rows = 0.0, 0, 0

    def score(
        self,
        state: ModelState,
        count: int,
        score_gap: torch.Tensor | None = None,
        also: NDArray[np.int64] | None = None,
    ) -> NextTokens:
        """Score, and count the step."""
        start = time.thread_time()
        found = super().score(state, count, score_gap, also)
        self.seconds, self.steps, self.rows = (
            self.seconds + time.thread_time() - start,
            self.steps + 1,
            self.rows + len(state.keys),
        )
        return found

    def start(self, sources: Sequence[Sequence[int]]) -> ModelState:
        """Encode."""
        start = time.thread_time()
        state = super().start(sources)
        self.seconds += time.thread_time() - start
        return state

    def advance(self, state: ModelState, rows: torch.Tensor, tokens: torch.Tensor) -> ModelState:
        """Decode."""
        start = time.thread_time()
        found = super().advance(state, rows, tokens)
        self.seconds += time.thread_time() - start
        return found


def boundaries_of(model: Model) -> TokenBoundaries:
    """Return where words and sentences begin and end, by the texts of SentencePiece tokens."""
    texts = [model.token_text(token) for token in range(model.vocabulary_size)]
    continues = [text[:1].isalnum() for text in texts]
    inside = [text[-1:].isalnum() for text in texts]
    closing = [text.lstrip(MARK) in (".", "!", "?") for text in texts]
    return TokenBoundaries(np.array(continues), np.array(inside), np.array(closing))


def find_terms(model: Model, texts: Sequence[str], references: Sequence[str]) -> list[SentenceConstraints | None]:
    """Return words of each reference that are not in a translation."""
    found: list[SentenceConstraints | None] = []
    for text, reference in zip(texts, references, strict=True):
        used = {word.lower() for word in re.findall(r"\w+", text)}
        words = dict.fromkeys(word for word in re.findall(r"\w{4,}", reference) if word.lower() not in used)
        forms: list[Form] = [tuple(ids[:-1]) for ids in model.encode_targets(list(words)[:TERMS])]
        found.append(SentenceConstraints(tuple((form,) for form in forms)) if forms else None)
    return found


def covered(one: SentenceConstraints, hypothesis: Hypothesis) -> int:
    """Return how many terms are among the tokens."""
    tokens = hypothesis.tokens
    return sum(
        any(tokens[place : place + len(form)] == form for place in range(len(tokens))) for [form] in one.required
    )


def main() -> None:
    """Search in turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--model")
    parser.add_argument("--sentences", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bonus", type=float, default=2.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = load_model(options.model)
    pairs = list(islice(read_corpus(options.corpus, languages=model.languages), options.sentences))
    sources = model.encode_sources([pair.source for pair in pairs])
    settings, capacity = BeamSettings(max_length_factor=2.0), BatchCapacity(32)
    plain = search(ModelScorer(model), sources, settings, capacity=capacity)
    texts = [model.decode(hypotheses[0].tokens) for hypotheses in plain]
    terms = find_terms(model, texts, [pair.target for pair in pairs])
    words = boundaries_of(model)
    kinds = {
        "plain": None,
        "soft": Constraints(terms, words, options.bonus),
        "strict": Constraints(terms, words, strict=True),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
    facts = {}
    for _ in range(options.rounds):
        for name, constraints in kinds.items():
            scorer = TimedScorer(model)
            start = time.thread_time()
            found = search(scorer, sources, settings, capacity=capacity, constraints=constraints)
            spent = time.thread_time() - start
            times[name].append((spent - scorer.seconds, scorer.seconds))
            facts[name] = (scorer.steps, scorer.rows, found)
    wanted = sum(len(one.required) for one in terms if one is not None)
    for name, (steps, rows, found) in facts.items():
        outside, inside = (median(column) * 1000 / steps for column in zip(*times[name], strict=True))
        there = sum(covered(one, hypotheses[0]) for one, hypotheses in zip(terms, found, strict=True) if one)
        score = sum(hypotheses[0].score for hypotheses in found) / len(found)
        row = {"search": name, "rules ms": round(outside, 3), "model ms": round(inside, 3)}
        print(
            json.dumps(
                {
                    **row,
                    "score": round(score, 4),
                    "steps": steps,
                    "rows per step": round(rows / steps),
                    "terms": f"{there}/{wanted}",
                }
            )
        )


if __name__ == "__main__":
    main()
