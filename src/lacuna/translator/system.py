"""A system: everything that decides a translation. Nothing else makes a translator.

So what was scored is what is used: the same model, memories and combiner give the same translations in
``lacuna adapt``, ``lacuna translate``, ``lacuna evaluate`` and on a server.

:class:`System` has its parts open: a server also has memories that are nowhere on disk. Its record is plain: it is
saved (a domain has one), compared and printed, and opened again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import JsonValue

from lacuna.artifacts.manifests import Record
from lacuna.combiners import (
    Combiner,
    EndGuard,
    ExactContexts,
    Gate,
    Proximity,
    SavedCombiner,
    load_combiner,
    load_gate,
)
from lacuna.combiners.storage import describe_combiner, make_combiner
from lacuna.datastore.manifest import ModelIdentity
from lacuna.decoding import BeamSettings
from lacuna.errors import SettingError
from lacuna.glossaries import Glossary, load_glossary
from lacuna.memory import Memory, open_memory, place_in
from lacuna.models import Model
from lacuna.translator.calibration import Calibration, load_calibration
from lacuna.translator.knowledge import MAX_MARGIN
from lacuna.translator.retriever import Retriever
from lacuna.translator.translator import Translator

FORMAT = 1


class ModelPart(ModelIdentity):
    """The model of a system; the name ``None`` is that of the bundled model."""

    languages: str | None
    mask_placeholders: bool = True


class CombinerPart(Record):
    """The combiner of a system.

    :param kind: Name of the combiner, such as ``adaptive``.
    :param folder: Where it is saved; ``None`` if its settings are all there is.
    """

    kind: str
    settings: dict[str, JsonValue]
    folder: str | None


class GatePart(Record):
    """The gate of a system, which is saved with its combiner.

    :param entries: Number of entries of the memories that it was made for; ``None`` for any.
    """

    entries: int | None


class SystemRecord(Record):
    """A system as plain values: everything that decides its translations.

    :param memories: Folders, or addresses of collections.
    :param combiner: ``None`` for the safe one.
    :param calibration: Its folder; ``None`` without one.
    :param int8: ``None`` for 8-bit weights where they are possible.
    :param glossary: Its file; ``None`` without one.
    """

    format: int = FORMAT
    kind: Literal["system"] = "system"
    model: ModelPart
    memories: tuple[str, ...]
    combiner: CombinerPart | None
    gate: GatePart | None
    calibration: str | None
    beam: BeamSettings = BeamSettings()
    exact_contexts: bool = True
    guard_ends: bool = True
    int8: bool | None = None
    fallback: bool = False
    glossary: str | None = None
    strict_terms: bool = False

    def rows(self) -> list[tuple[str, str]]:
        """Return names and values to show."""
        beam = ", ".join(f"{name} {value}" for name, value in asdict(self.beam).items() if value is not None)
        settings = {} if self.combiner is None else self.combiner.settings
        combiner = "safe settings" if self.combiner is None else self.combiner.kind
        entries = None if self.gate is None else self.gate.entries
        return [
            ("model", f"{self.model.name or 'bundled'} {self.model.languages or ''} {self.model.fingerprint[:12]}"),
            ("memories", ", ".join(self.memories) or "none"),
            ("combiner", " ".join([combiner, *(f"{name} {value}" for name, value in settings.items())])),
            ("gate", "none" if self.gate is None else "any memory" if entries is None else f"for {entries:,} entries"),
            ("calibration", self.calibration or "none"),
            ("glossary", "none" if self.glossary is None else self.glossary + ", strict" * self.strict_terms),
            ("beam search", beam),
            *(
                (name, "yes" if value else "no")
                for name, value in (
                    ("exact contexts", self.exact_contexts),
                    ("end guard", self.guard_ends),
                    ("placeholders masked", self.model.mask_placeholders),
                    ("model alone if a memory fails", self.fallback),
                )
            ),
            ("8-bit weights", {None: "where possible", True: "yes", False: "no"}[self.int8]),
        ]

    def open(self, base: Path, model: Model, *, name: str | None = None) -> System:
        """Open the parts of the system.

        :param base: Folder that relative names start from.
        :param model: Its model, loaded.
        :param name: Name of the memory in explanations; by default, that of its folder.
        :raises LacunaError: A part is missing or damaged, or was not saved.
        """
        folder = None if self.combiner is None or self.combiner.folder is None else base / self.combiner.folder
        return System(
            model,
            [open_memory(place_in(base, memory), name) for memory in self.memories],
            self._open_combiner(folder),
            self.beam,
            gate=None if self.gate is None else load_gate(_saved(folder, "gate"))[0],
            gate_entries=None if self.gate is None else self.gate.entries,
            calibration=None if self.calibration is None else load_calibration(base / self.calibration),
            exact_contexts=self.exact_contexts,
            guard_ends=self.guard_ends,
            int8=self.int8,
            fallback=self.fallback,
            glossary=None if self.glossary is None else load_glossary(base / self.glossary),
            strict_terms=self.strict_terms,
        )

    def _open_combiner(self, folder: Path | None) -> Combiner | None:
        if folder is not None:
            return load_combiner(folder)
        if self.combiner is None:
            return None
        combiner = make_combiner(self.combiner.kind, self.combiner.settings)
        if combiner.network is not None:  # its weights would be new ones
            _saved(folder, "combiner")
        return combiner


def _saved(folder: Path | None, part: str) -> Path:
    """Return the folder of a part, or refuse one that was never saved."""
    if folder is None:
        raise SettingError(f"{part}: was not saved when the system was recorded; save it, and record the system again")
    return folder


@dataclass(frozen=True, eq=False, slots=True)
class System:
    """The parts of a translator. The defaults are those of a domain.

    :param memories: Searched together; without any, the model translates alone.
    :param combiner: Turns neighbors into probability; ``None`` for the safe one, see :func:`safe_combiner`.
    :param beam: Settings of beam search.
    :param gate: Decides where to search; without it, every step searches.
    :param gate_entries: Number of entries of the memories for which the gate was made; ``None`` for any. With others
        the gate is not used: it would skip searches that new entries make worthwhile.
    :param calibration: Gives translations a confidence.
    :param exact_contexts: Where a memory has the same source and target prefix, trust it: a sentence of the memory is
        translated as there. Other sentences are not affected.
    :param guard_ends: A memory may end a translation only where the model sees an end as well; see
        :class:`~lacuna.combiners.EndGuard`.
    :param int8: Translate with 8-bit weights: faster on a CPU, and nearly the same translations; see
        :class:`~lacuna.models.stepping.ModelScorer`. ``None``: where that is possible.
    :param fallback: If a memory on a server does not answer, translate with the model alone and say so in the
        translation, instead of raising an error.
    :param glossary: Terms, and how each must be translated.
    :param strict_terms: Where a translation lacks a term, search only for translations that have it, instead of raising
        the probability of its forms first.
    """

    model: Model
    memories: Sequence[Memory] = ()
    combiner: Combiner | None = None
    beam: BeamSettings = field(default_factory=BeamSettings)
    gate: Gate | None = None
    gate_entries: int | None = None
    calibration: Calibration | None = None
    exact_contexts: bool = True
    guard_ends: bool = True
    int8: bool | None = None
    fallback: bool = False
    glossary: Glossary | None = None
    strict_terms: bool = False

    def open(self) -> Translator:
        """Return the translator."""
        return Translator(self)

    def check(self) -> None:
        """Refuse parts that were made with another model, and a calibration without memories."""
        for memory in self.memories:
            memory.check_model(self.model)
        if isinstance(self.combiner, SavedCombiner):
            self.combiner.check_model(self.model.fingerprint)
        if self.calibration is not None:
            self.calibration.check(self.memories, MAX_MARGIN)

    def retriever(self) -> Retriever | None:
        """Return what searches the memories; ``None`` without any."""
        if not self.memories:
            return None
        combiner = self.combiner or safe_combiner(self.memories)
        entries = sum(memory.entries for memory in self.memories)
        return Retriever(
            tuple(self.memories),
            ExactContexts(combiner) if self.exact_contexts else combiner,
            self.gate if self.gate_entries in (None, entries) else None,
            EndGuard(self.model.eos_id) if self.guard_ends else None,
        )

    def record(self, base: Path | None = None) -> SystemRecord:
        """Return the system as plain values. A memory of which only some entries are found is named as a whole.

        :param base: Folders below it are named relative to it.
        """
        combiner = None
        if self.combiner is not None:
            kind, settings = describe_combiner(self.combiner)
            saved = self.combiner.path if isinstance(self.combiner, SavedCombiner) else None
            combiner = CombinerPart(kind=kind, settings=settings, folder=_relative(saved, base))
        return SystemRecord(
            model=ModelPart(
                name=self.model.place,
                fingerprint=self.model.fingerprint,
                languages=None if self.model.languages is None else str(self.model.languages),
                mask_placeholders=self.model.mask_placeholders,
            ),
            memories=tuple(_place_of(memory, base) for memory in self.memories),
            combiner=combiner,
            gate=None if self.gate is None else GatePart(entries=self.gate_entries),
            calibration=None if self.calibration is None else _relative(self.calibration.path, base) or "unsaved",
            beam=self.beam,
            exact_contexts=self.exact_contexts,
            guard_ends=self.guard_ends,
            int8=self.int8,
            fallback=self.fallback,
            glossary=None if self.glossary is None else _relative(self.glossary.file, base) or "unsaved",
            strict_terms=self.strict_terms,
        )


def safe_combiner(memories: Sequence[Memory]) -> Proximity:
    """Return settings that need no fitting and do not harm on average: a far neighbor hardly counts."""
    return Proximity.suited_to(max(memories, key=lambda memory: memory.entries))


def _place_of(memory: Memory, base: Path | None) -> str:
    folder = next(iter(memory.folders), None)
    return _relative(folder, base) or memory.place


def _relative(folder: Path | None, base: Path | None) -> str | None:
    """Return a folder or file relative to a folder if it is below it; otherwise as it is."""
    if folder is None or base is None:
        return None if folder is None else str(folder)
    path, base = folder.resolve(), base.resolve()
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else str(folder)
