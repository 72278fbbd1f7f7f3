"""The hypotheses of sentences, found by beam search: with the memories, or with the model alone.

Works on tokens, and leaves the choice among hypotheses to the caller.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from lacuna.decoding import BatchCapacity, BeamSettings, Constraints, Hypothesis, decode_blocks, pool_for
from lacuna.errors import UnavailableError
from lacuna.models.stepping import ModelScorer
from lacuna.progress import SILENT, Progress
from lacuna.translator.knn_scorer import KnnScorer

Sources = Sequence[Sequence[int]]


class HypothesisSearch:
    """Finds hypotheses.

    :param knn: Scores with the memories; ``None`` without any.
    :param parallel: Let the threads of torch form a worker pool.
    """

    def __init__(self, plain: ModelScorer, knn: KnnScorer | None, beam: BeamSettings, *, parallel: bool) -> None:
        self._plain, self._knn, self._beam, self._parallel = plain, knn, beam, parallel

    def find(
        self,
        sources: Sources,
        batch_size: int,
        *,
        beam: int | None = None,
        alone: bool = False,
        constraints: Constraints | None = None,
        progress: Progress = SILENT,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, the best first.

        :param beam: Another beam width.
        :param alone: Do without the memories.
        :param constraints: What the translations must and must not contain.
        """
        settings = self._beam if beam is None else replace(self._beam, beam=beam)
        scorer = self._plain if alone or self._knn is None else self._knn
        groups = self._search(scorer, settings, sources, [len(sources)], batch_size, progress, constraints)
        return [hypotheses for group in groups for hypotheses in group]

    def stream(
        self, sources: Sources, blocks: Sequence[int], batch_size: int, progress: Progress, *, fallback: bool
    ) -> Generator[list[tuple[list[Hypothesis], bool]], None, None]:
        """Yield the hypotheses of each sentence in order, in groups, and whether the model made them alone.

        :param blocks: As in :func:`~lacuna.decoding.decode_blocks`.
        :param fallback: If a memory fails, translate what is not finished again, without memories.
        """
        done = 0
        if self._knn is not None:
            try:
                for group in self._search(self._knn, self._beam, sources, blocks, batch_size, progress):
                    yield [(hypotheses, False) for hypotheses in group]
                    done += len(group)
                return
            except UnavailableError:
                if not fallback:
                    raise
        left, alone = sources[done:], self._knn is not None
        for group in self._search(self._plain, self._beam, left, [len(left)] if done else blocks, batch_size, progress):
            yield [(hypotheses, alone) for hypotheses in group]

    def _search(
        self,
        scorer: ModelScorer | KnnScorer,
        beam: BeamSettings,
        sources: Sources,
        blocks: Sequence[int],
        batch_size: int,
        progress: Progress,
        constraints: Constraints | None = None,
    ) -> Iterator[list[list[Hypothesis]]]:
        pool = pool_for(len(sources), batch_size, self._plain.min_sentences) if self._parallel else None
        decoding = decode_blocks(
            scorer,
            sources,
            beam,
            blocks,
            BatchCapacity(batch_size),
            pool=pool,
            on_finished=progress.advance,
            constraints=constraints,
        )
        with closing(decoding):
            yield from decoding
