"""Cutting many sources into batches of like length, and translating them all.

Knows nothing of what a token stands for, nor of how a batch is searched.
"""

from __future__ import annotations

from collections.abc import Sequence

from lacuna.decoding.beam import BeamSettings, search
from lacuna.decoding.crew import Crew, fair_share
from lacuna.decoding.hypotheses import Hypothesis
from lacuna.decoding.scorer import Scorer, State
from lacuna.errors import SettingError
from lacuna.progress import SILENT, Progress


def plan_batches(lengths: Sequence[int], *, batch_size: int = 32, max_tokens: int | None = None) -> list[list[int]]:
    """Sort sentences by length, longest first, and cut them into batches; give the sentences' numbers.

    The longest go first, so that a lack of memory shows at once and not after an hour.

    :param batch_size: The most sentences in a batch.
    :param max_tokens: The most source tokens in a batch, fillers included; a longer sentence goes alone.
    """
    if batch_size < 1 or (max_tokens is not None and max_tokens < 1):
        raise SettingError(f"batch_size and max_tokens must be 1 or more, got {batch_size} and {max_tokens}")
    batches: list[list[int]] = []
    room = 0
    for number in sorted(range(len(lengths)), key=lambda n: (-lengths[n], n)):
        if room == 0:
            batches.append([])
            fitting = batch_size if max_tokens is None else max_tokens // max(1, lengths[number])
            room = max(1, min(batch_size, fitting))
        batches[-1].append(number)
        room -= 1
    return batches


def decode_all(
    scorer: Scorer[State],
    sources: Sequence[Sequence[int]],
    settings: BeamSettings,
    *,
    batch_size: int = 32,
    max_tokens: int | None = None,
    crew: Crew | None = None,
    progress: Progress = SILENT,
) -> list[list[Hypothesis]]:
    """Translate any number of sources, in batches of like length; the answers come in the order of the sources.

    :param batch_size: The most sentences at once.
    :param max_tokens: The most source tokens at once, fillers included.
    :param crew: Who takes the batches; without it, the calling thread alone. The bounds hold for each worker.
    """
    crew = crew or Crew()
    results: list[list[Hypothesis]] = [[] for _ in sources]
    lengths = [len(source) for source in sources]
    if crew.workers > 1:
        max_tokens = min(fair_share(lengths, crew.workers), max_tokens or sum(lengths))
    batches = plan_batches(lengths, batch_size=batch_size, max_tokens=max_tokens)
    progress.start("translate", len(sources), "sentences")
    for batch, found in crew.each(lambda numbers: search(scorer, [sources[n] for n in numbers], settings), batches):
        for number, hypotheses in zip(batch, found, strict=True):
            results[number] = hypotheses
        progress.advance(len(batch))
    progress.finish()
    return results
