"""Beam search, for many sentences at once, over any scorer.

Finds token for token what ``generate`` of transformers finds (no sampling, ``early_stopping=False``), the rules for
ending a search included, but drops each sentence from the batch as soon as it has ended. Knows nothing of text, of
models or of neighbors: all it sees is log-probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from lacuna.decoding.hypotheses import Finished, History, Hypothesis, Links
from lacuna.decoding.scorer import Scorer, State
from lacuna.decoding.top import top_k
from lacuna.errors import ModelError, SettingError

_NONE = float("-inf")


@dataclass(frozen=True, slots=True)
class BeamSettings:
    """How to search.

    :param beam: Unfinished translations kept for each sentence; 1 is greedy search.
    :param length_penalty: The score of a translation is its log-probability over its length to this power.
    :param max_new_tokens: Where a translation is cut off.
    :param max_length_factor: If given, a translation is also cut off at ``max_length_factor`` times the tokens of its
        source plus ``max_length_offset``.
    :param max_length_offset: See ``max_length_factor``; without that it means nothing.
    """

    beam: int = 5
    length_penalty: float = 1.0
    max_new_tokens: int = 200
    max_length_factor: float | None = None
    max_length_offset: int = 10

    def __post_init__(self) -> None:
        for name in ("beam", "max_new_tokens"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name}: got {getattr(self, name)}; allowed is 1 or more")
        if not -10 <= self.length_penalty <= 10:
            raise SettingError(f"length_penalty must be from -10 to 10, got {self.length_penalty}; 1 is usual")
        if self.max_length_factor is not None and not 0 <= self.max_length_factor <= 1000:
            raise SettingError(f"max_length_factor must be from 0 to 1000, got {self.max_length_factor}")
        if self.max_length_offset < 1:
            raise SettingError(f"max_length_offset must be 1 or more, got {self.max_length_offset}")

    def limit(self, source_length: int) -> int:
        """Give the most tokens the translation of such a source may have."""
        if self.max_length_factor is None:
            return self.max_new_tokens
        return min(self.max_new_tokens, int(self.max_length_factor * source_length) + self.max_length_offset)


@torch.inference_mode()
def search(
    scorer: Scorer[State],
    sources: Sequence[Sequence[int]],
    settings: BeamSettings,
    *,
    observe: Callable[[State], None] | None = None,
) -> list[list[Hypothesis]]:
    """Translate a batch of sources: for each up to ``beam`` translations, best first and at least one.

    :param observe: Called once for each step with the state that was scored in it, so that a caller can keep what it
        wants to find again by step and row (see :class:`Hypothesis`). The state itself is used up afterwards.
    """
    if not sources:
        return []
    limits = [min(settings.limit(len(source)), scorer.max_new_tokens) for source in sources]

    def look(state: State, behind: torch.Tensor | None = None) -> torch.Tensor:
        if observe is not None:
            observe(state)
        return scorer.score(state, behind)

    state = scorer.start(sources)
    scores = look(state)
    beams = _Beams(scorer.eos_id, scorer.banned_ids, settings, torch.tensor(limits, device=scores.device))
    while (following := beams.step(scores)) is not None:
        state = scorer.advance(state, following.rows, following.tokens)
        scores = look(state, beams.behind)
    return beams.results()


class _Beams:
    """All hypotheses of a batch of sentences."""

    def __init__(self, eos_id: int, banned: Sequence[int], settings: BeamSettings, limits: torch.Tensor) -> None:
        self._eos_id = eos_id
        self._banned = list(banned)
        self._settings = settings
        self._history = History(torch.zeros(len(limits), device=limits.device))
        self._finished = Finished(len(limits), settings.beam, limits.device)
        self._step = 0
        self._limits = limits  # (live,)
        self._live = torch.arange(len(limits), device=limits.device)  # sentences still searched
        # Log-probabilities of unfinished hypotheses, (live, width); the width is 1 at first.
        self._totals = torch.zeros(len(limits), 1, device=limits.device)

    def step(self, scores: torch.Tensor) -> Links | None:
        """Take the scores of all rows; give what follows which row, or ``None`` at the end of the search."""
        totals, links = self._candidates(scores)
        hits = (links.tokens == self._eos_id) | (self._step + 1 >= self._limits)[:, None]
        length = (self._step + 1) ** self._settings.length_penalty
        # Only the best `beam` candidates may finish; the others are there to go on if those end.
        beam = self._settings.beam
        ended = totals.masked_fill(~hits, _NONE)[:, :beam] / length
        self._finished.merge(self._live, ended, links.take(_first(totals, beam)), self._step)
        self._totals, best = totals.masked_fill(hits, _NONE).topk(min(beam, totals.shape[1]))
        goes_on = self._goes_on(length)
        following = links.take(best).keep(goes_on)
        self._totals, self._limits, self._live = (part[goes_on] for part in (self._totals, self._limits, self._live))
        self._history.add(following, (self._totals[:, :1] - self._totals).flatten())
        self._step += 1
        return following if len(self._live) else None

    @property
    def behind(self) -> torch.Tensor:
        """How much less probable each row is than the best of its sentence, in nats: ``(rows,)``."""
        return self._history.behind[-1]

    def results(self) -> list[list[Hypothesis]]:
        """Read back what was found."""
        return self._finished.read(self._history)

    def _candidates(self, scores: torch.Tensor) -> tuple[torch.Tensor, Links]:
        """Give the best continuations of each sentence, best first: totals and links ``(live, candidates)``."""
        if self._banned:
            scores[:, self._banned] = _NONE
        live, width = self._totals.shape
        # A row can give no more than all of its sentence's candidates. Twice the beam, since half may be end tokens.
        wanted = 2 * self._settings.beam
        gains, tokens = top_k(scores, min(wanted, scores.shape[1]))
        share = gains.shape[1]
        sums = (self._totals.flatten()[:, None] + gains).view(live, width * share)
        totals, best = sums.topk(min(wanted, width * share))
        self._check(totals[:, 0])
        first_rows = torch.arange(live, device=scores.device)[:, None] * width
        links = Links(
            first_rows + best // share,
            tokens.view(live, -1).gather(1, best),
            gains.view(live, -1).gather(1, best),
        )
        return totals, links

    def _check(self, best: torch.Tensor) -> None:
        """Refuse scores that are no log-probabilities, and a sentence that cannot even have a first token."""
        wrong = best.isnan() | (best == -_NONE)
        if bool(wrong.any()):
            raise ModelError(f"step {self._step}: the scorer gave NaN or infinity where log-probabilities are needed")
        if self._step == 0 and bool((best == _NONE).any()):
            raise ModelError("no token is allowed to start a translation: all are banned or have no probability")

    def _goes_on(self, length: float) -> torch.Tensor:
        """Tell which sentences must be searched further.

        A sentence ends when ``beam`` translations are finished and the best unfinished one, were it to end right here,
        would be no better than the worst of them. A longer one could still be, if the length penalty is positive, but
        transformers takes no notice of that either. With a beam of 1 this is greedy search: what ended was the best
        candidate, so no other of its length is better.
        """
        finished = self._finished.scores[self._live]
        best = self._totals[:, 0]
        improvable = best / length > finished[:, -1]  # -inf while there are fewer than `beam`
        return improvable & (best > _NONE)


def _first(candidates: torch.Tensor, count: int) -> torch.Tensor:
    """Give the columns of the first ``count`` candidates of each sentence."""
    columns = torch.arange(min(count, candidates.shape[1]), device=candidates.device)
    return columns.expand(len(candidates), -1)
