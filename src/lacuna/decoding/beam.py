"""The rules of beam search: settings, candidates of a step, and when a sentence ends.

Does not know where scores come from, how sentences are batched, or what tokens mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch

from lacuna.decoding.backpointers import ROOT, Backpointers, Extensions, FinishedHypotheses, Hypothesis
from lacuna.errors import ModelError, SettingError

_BLOCK = 64


def top_k(scores: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the ``k`` largest of each row of ``(rows, columns)``, largest first, and their columns.

    The k largest numbers lie in the k blocks with the largest maxima, and block maxima are cheap to compute: on a CPU
    this takes a fraction of the time of ``torch.topk`` over a vocabulary. Ties are broken arbitrarily.
    """
    columns = scores.shape[1]
    blocks = columns // _BLOCK
    if scores.device.type != "cpu" or blocks < 4 * k:
        best = scores.topk(k)
        return best.values, best.indices
    split = blocks * _BLOCK
    grouped = scores[:, :split].view(-1, blocks, _BLOCK)
    chosen = grouped.amax(-1).topk(k, sorted=False).indices  # (rows, k)
    # The last columns may not fill a block; they are few, so all of them are candidates.
    candidates = grouped.gather(1, chosen[:, :, None].expand(-1, -1, _BLOCK)).flatten(1)
    best = torch.cat([candidates, scores[:, split:]], 1).topk(k)
    block, offset = best.indices // _BLOCK, best.indices % _BLOCK
    inside = chosen.gather(1, block.clamp(max=k - 1)) * _BLOCK + offset
    return best.values, torch.where(block < k, inside, best.indices - k * _BLOCK + split)


_NONE = float("-inf")


@dataclass(frozen=True, slots=True)
class BeamSettings:
    """Settings of beam search.

    :param beam: Unfinished hypotheses kept for each sentence; 1 is greedy search.
    :param length_penalty: The score of a hypothesis is its log-probability divided by its length to this power.
    :param max_new_tokens: Maximum number of tokens of a translation.
    :param max_length_factor: If given, the maximum is also ``max_length_factor`` times the tokens of the source plus
        ``max_length_offset``.
    :param max_length_offset: See ``max_length_factor``; has no effect without it.
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
        """Return the maximum number of tokens of the translation of a source."""
        if self.max_length_factor is None:
            return self.max_new_tokens
        return min(self.max_new_tokens, int(self.max_length_factor * source_length) + self.max_length_offset)


@dataclass(slots=True)
class LiveHypotheses:
    """Sentences under search, and their unfinished hypotheses.

    :param sentences: Numbers of the sentences: (live,).
    :param limits: Maximum number of tokens of each: (live,).
    :param lengths: Current number of tokens of each: (live,).
    :param totals: Log-probabilities of the hypotheses, best first: (live, width).
    :param nodes: Their nodes in the backpointers: (live, width).
    """

    sentences: torch.Tensor
    limits: torch.Tensor
    lengths: torch.Tensor
    totals: torch.Tensor
    nodes: torch.Tensor

    @classmethod
    def start(cls, sentences: torch.Tensor, limits: torch.Tensor) -> LiveHypotheses:
        """Start with one empty hypothesis for each sentence."""
        lengths, totals = torch.zeros_like(sentences), torch.zeros(len(sentences), 1, device=sentences.device)
        return cls(sentences, limits, lengths, totals, torch.full_like(sentences, ROOT)[:, None])

    def __len__(self) -> int:
        return len(self.sentences)

    def join(self, others: LiveHypotheses) -> LiveHypotheses:
        """Append other sentences, with the same number of hypotheses each."""
        parts = (torch.cat([getattr(one, part.name) for one in (self, others)]) for part in fields(LiveHypotheses))
        return LiveHypotheses(*parts)

    def score_gaps(self) -> torch.Tensor:
        """Return how many nats each row is below the best row of its sentence: (rows,)."""
        return (self.totals[:, :1] - self.totals).flatten()


class BeamRules:
    """Applies the rules of beam search to scores, and collects finished hypotheses.

    :param sentences: Total number of sentences.
    """

    def __init__(
        self, sentences: int, eos_id: int, banned: Sequence[int], settings: BeamSettings, device: torch.device
    ) -> None:
        self._eos_id = eos_id
        self._banned = list(banned)
        self._settings = settings
        self._backpointers = Backpointers()
        self._finished = FinishedHypotheses(sentences, settings.beam, device)

    def step(self, live: LiveHypotheses, scores: torch.Tensor) -> tuple[LiveHypotheses, Extensions]:
        """Choose tokens from the scores of all rows; return the sentences that continue and their new rows."""
        totals, candidates = self._candidates(live, scores)
        nodes = live.nodes.flatten()[candidates.rows]
        lengths = live.lengths + 1
        ends = (candidates.tokens == self._eos_id) | (lengths >= live.limits)[:, None]
        divisors = lengths.double().pow(self._settings.length_penalty).float()
        # Only the best `beam` candidates may finish; the others replace them if they end.
        beam = min(self._settings.beam, totals.shape[1])
        final_scores = totals.masked_fill(~ends, _NONE)[:, :beam] / divisors[:, None]
        self._finished.merge(live.sentences, final_scores, nodes[:, :beam], candidates.first(beam))
        unfinished, best = totals.masked_fill(ends, _NONE).topk(beam)
        continues = self._continues(live.sentences, unfinished[:, 0], divisors)
        extensions = candidates.take(best).keep(continues)
        parents = nodes.gather(1, best)[continues]
        kept = LiveHypotheses(
            live.sentences[continues], live.limits[continues], lengths[continues], unfinished[continues], parents
        )
        added = self._backpointers.add(parents.flatten(), extensions.tokens, extensions.log_probs, kept.score_gaps())
        kept.nodes = added.view_as(parents)
        return kept, extensions

    def results(self, sentences: Sequence[int]) -> list[list[Hypothesis]]:
        """Return the finished hypotheses of some sentences, best first."""
        return self._finished.read(sentences, self._backpointers)

    def _candidates(self, live: LiveHypotheses, scores: torch.Tensor) -> tuple[torch.Tensor, Extensions]:
        """Return the best extensions of each sentence, best first, and their totals: ``(live, candidates)``."""
        if self._banned:
            scores[:, self._banned] = _NONE
        count, width = live.totals.shape
        # A row cannot give more than all candidates of its sentence. Twice the beam, since half may be end tokens.
        wanted = 2 * self._settings.beam
        gains, tokens = top_k(scores, min(wanted, scores.shape[1]))
        per_row = gains.shape[1]
        sums = (live.totals.flatten()[:, None] + gains).view(count, width * per_row)
        totals, best = sums.topk(min(wanted, width * per_row))
        _check(totals[:, 0], live.lengths)
        first_rows = torch.arange(count, device=scores.device)[:, None] * width
        extensions = Extensions(
            first_rows + best // per_row,
            tokens.view(count, -1).gather(1, best),
            gains.view(count, -1).gather(1, best),
        )
        return totals, extensions

    def _continues(self, sentences: torch.Tensor, best: torch.Tensor, divisors: torch.Tensor) -> torch.Tensor:
        """Decide which sentences continue.

        A sentence ends when ``beam`` hypotheses are finished and the best unfinished one, if it ended here, would not
        be better than the worst of them. A longer one could still be, if the length penalty is positive; transformers
        ignores that, too. With a beam of 1 this is greedy search: the hypothesis that ended was the best candidate, so
        no other of its length is better.

        :param best: Log-probability of the best unfinished hypothesis of each sentence: (live,).
        """
        improvable = best / divisors > self._finished.scores[sentences, -1]  # -inf while there are fewer than `beam`
        return improvable & (best > _NONE)


def _check(best: torch.Tensor, lengths: torch.Tensor) -> None:
    """Raise on scores that are not log-probabilities, and on a sentence without any possible first token."""
    wrong = best.isnan() | (best == -_NONE)
    if bool(wrong.any()):
        step = int(lengths[wrong].min())
        raise ModelError(f"step {step}: the scorer gave NaN or infinity where log-probabilities are needed")
    if bool(((best == _NONE) & (lengths == 0)).any()):
        raise ModelError("no token is allowed to start a translation: all are banned or have no probability")
