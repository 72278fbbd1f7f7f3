"""A system: everything that decides a translation. Nothing else makes a translator.

So what was scored is what is used: the same model, memories and combiner give the same translations in
``lacuna adapt``, ``lacuna translate``, ``lacuna evaluate`` and on a server. Does not know where its parts are on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lacuna.combiners import Combiner, Gate, Proximity
from lacuna.decoding import BeamSettings
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.translator.translator import Translator


@dataclass(frozen=True, eq=False, slots=True)
class System:
    """The parts of a translator. The defaults are those of a domain.

    :param memories: Searched together; without any, the model translates alone.
    :param combiner: ``None`` for the safe one; see :func:`safe_combiner`.
    :param beam: ``None`` for the default settings of beam search.
    :param gate: Decides where to search; without it, every step searches.
    :param gate_entries: Number of entries of the memories for which the gate was made; ``None`` for any. With others
        the gate is not used: it would skip searches that new entries make worthwhile.
    :param exact_contexts: As in :class:`~lacuna.translator.Translator`, like the rest.
    """

    model: Model
    memories: Sequence[Memory] = ()
    combiner: Combiner | None = None
    beam: BeamSettings | None = None
    gate: Gate | None = None
    gate_entries: int | None = None
    exact_contexts: bool = True
    guard_ends: bool = True
    int8: bool = False
    fallback: bool = False

    def open(self) -> Translator:
        """Return the translator."""
        entries = sum(memory.entries for memory in self.memories)
        return Translator(
            self.model,
            self.memories,
            self.combiner or (safe_combiner(self.memories) if self.memories else None),
            self.beam,
            gate=self.gate if self.gate_entries in (None, entries) else None,
            int8=self.int8,
            exact_contexts=self.exact_contexts,
            guard_ends=self.guard_ends,
            fallback=self.fallback,
        )


def safe_combiner(memories: Sequence[Memory]) -> Proximity:
    """Return settings that need no fitting and do not harm on average: a far neighbor hardly counts."""
    return Proximity.suited_to(max(memories, key=lambda memory: memory.entries))
