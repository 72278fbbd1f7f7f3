"""The largest few of many numbers, quickly. Knows nothing of what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch

from lacuna.decoding.hypotheses import ROOT, Finished, Hypothesis, Links, Trails
from lacuna.errors import ModelError, SettingError

_BLOCK = 64


def top_k(scores: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the ``k`` largest of each row of ``(rows, columns)``, largest first, and their columns.

    The k largest numbers lie in the k blocks with the largest maxima, and maxima of blocks are quick to find: on a CPU
    this takes a fraction of the time of ``torch.topk`` over a vocabulary. Of equal numbers any may be taken.
    """
    columns = scores.shape[1]
    blocks = columns // _BLOCK
    if scores.device.type != "cpu" or blocks < 4 * k:
        best = scores.topk(k)
        return best.values, best.indices
    split = blocks * _BLOCK
    grouped = scores[:, :split].view(-1, blocks, _BLOCK)
    chosen = grouped.amax(-1).topk(k, sorted=False).indices  # (rows, k)
    # The last columns may not fill a block; they are few, so all of them take part.
    candidates = grouped.gather(1, chosen[:, :, None].expand(-1, -1, _BLOCK)).flatten(1)
    best = torch.cat([candidates, scores[:, split:]], 1).topk(k)
    block, offset = best.indices // _BLOCK, best.indices % _BLOCK
    inside = chosen.gather(1, block.clamp(max=k - 1)) * _BLOCK + offset
    return best.values, torch.where(block < k, inside, best.indices - k * _BLOCK + split)


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


@dataclass(slots=True)
class Live:
    """Sentences that are being searched, and their unfinished translations.

    :param numbers: Which sentences: (live,).
    :param limits: The most tokens of each: (live,).
    :param ages: How many tokens each has by now: (live,).
    :param totals: Log-probabilities of the unfinished translations, best first: (live, width).
    :param nodes: Where they stand in the trails: (live, width).
    """

    numbers: torch.Tensor
    limits: torch.Tensor
    ages: torch.Tensor
    totals: torch.Tensor
    nodes: torch.Tensor

    @classmethod
    def begin(cls, numbers: torch.Tensor, limits: torch.Tensor) -> Live:
        """Begin with one empty translation for each sentence."""
        ages, totals = torch.zeros_like(numbers), torch.zeros(len(numbers), 1, device=numbers.device)
        return cls(numbers, limits, ages, totals, torch.full_like(numbers, ROOT)[:, None])

    def __len__(self) -> int:
        return len(self.numbers)

    def join(self, others: Live) -> Live:
        """Search other sentences as well; they come after these, and have equally many translations each."""
        return Live(*(torch.cat([getattr(one, part.name) for one in (self, others)]) for part in fields(Live)))

    def behind(self) -> torch.Tensor:
        """Tell how much less probable each row is than the best of its sentence, in nats: (rows,)."""
        return (self.totals[:, :1] - self.totals).flatten()


class Beams:
    """Applies the rules to sentences, and keeps what is finished.

    :param sentences: How many there are in all.
    """

    def __init__(
        self, sentences: int, eos_id: int, banned: Sequence[int], settings: BeamSettings, device: torch.device
    ) -> None:
        self._eos_id = eos_id
        self._banned = list(banned)
        self._settings = settings
        self._trails = Trails()
        self._finished = Finished(sentences, settings.beam, device)

    def step(self, live: Live, scores: torch.Tensor) -> tuple[Live, Links]:
        """Take the scores of all rows; give the sentences that go on, and what follows which row."""
        totals, links = self._candidates(live, scores)
        nodes = live.nodes.flatten()[links.rows]
        ages = live.ages + 1
        hits = (links.tokens == self._eos_id) | (ages >= live.limits)[:, None]
        lengths = ages.double().pow(self._settings.length_penalty).float()
        # Only the best `beam` candidates may finish; the others are there to go on if those end.
        beam = min(self._settings.beam, totals.shape[1])
        first = Links(*(part[:, :beam] for part in (links.rows, links.tokens, links.log_probs)))
        ended = totals.masked_fill(~hits, _NONE)[:, :beam] / lengths[:, None]
        self._finished.merge(live.numbers, ended, nodes[:, :beam], first)
        unfinished, best = totals.masked_fill(hits, _NONE).topk(beam)
        goes_on = self._goes_on(live.numbers, unfinished[:, 0], lengths)
        following = links.take(best).keep(goes_on)
        parents = nodes.gather(1, best)[goes_on]
        kept = Live(live.numbers[goes_on], live.limits[goes_on], ages[goes_on], unfinished[goes_on], parents)
        grown = self._trails.grow(parents.flatten(), following.tokens, following.log_probs, kept.behind())
        kept.nodes = grown.view_as(parents)
        return kept, following

    def results(self) -> list[list[Hypothesis]]:
        """Read back what was found."""
        return self._finished.read(self._trails)

    def _candidates(self, live: Live, scores: torch.Tensor) -> tuple[torch.Tensor, Links]:
        """Give the best continuations of each sentence, best first: totals and links ``(live, candidates)``."""
        if self._banned:
            scores[:, self._banned] = _NONE
        count, width = live.totals.shape
        # A row can give no more than all of its sentence's candidates. Twice the beam, since half may be end tokens.
        wanted = 2 * self._settings.beam
        gains, tokens = top_k(scores, min(wanted, scores.shape[1]))
        share = gains.shape[1]
        sums = (live.totals.flatten()[:, None] + gains).view(count, width * share)
        totals, best = sums.topk(min(wanted, width * share))
        _check(totals[:, 0], live.ages)
        first_rows = torch.arange(count, device=scores.device)[:, None] * width
        links = Links(
            first_rows + best // share,
            tokens.view(count, -1).gather(1, best),
            gains.view(count, -1).gather(1, best),
        )
        return totals, links

    def _goes_on(self, numbers: torch.Tensor, best: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Tell which sentences must be searched further.

        A sentence ends when ``beam`` translations are finished and the best unfinished one, were it to end right here,
        would be no better than the worst of them. A longer one could still be, if the length penalty is positive, but
        transformers takes no notice of that either. With a beam of 1 this is greedy search: what ended was the best
        candidate, so no other of its length is better.

        :param best: Log-probability of the best unfinished translation of each: (live,).
        """
        improvable = best / lengths > self._finished.scores[numbers, -1]  # -inf while there are fewer than `beam`
        return improvable & (best > _NONE)


def _check(best: torch.Tensor, ages: torch.Tensor) -> None:
    """Refuse scores that are no log-probabilities, and a sentence that cannot even have a first token."""
    wrong = best.isnan() | (best == -_NONE)
    if bool(wrong.any()):
        step = int(ages[wrong].min())
        raise ModelError(f"step {step}: the scorer gave NaN or infinity where log-probabilities are needed")
    if bool(((best == _NONE) & (ages == 0)).any()):
        raise ModelError("no token is allowed to start a translation: all are banned or have no probability")
