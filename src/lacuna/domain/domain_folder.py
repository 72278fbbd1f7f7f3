"""A domain: a folder with everything that an adapted translator needs, opened.

``memory`` is a store with its index, ``combiner`` may have a gate, and there may be a ``calibration``. Entries may be
added to the memory later. Does not know how a domain is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lacuna.combiners import Gate, SavedCombiner, load_combiner, load_gate
from lacuna.decoding import BeamSettings
from lacuna.documents import DocumentReport, DocumentSettings, translate_file
from lacuna.domain.manifest import MANIFEST, DomainManifest, read_domain_manifest
from lacuna.errors import DomainError, ModelError
from lacuna.explanation.calibration import Calibration, load_calibration
from lacuna.memory import Memory, open_memory
from lacuna.models import Model, load_model
from lacuna.progress import SILENT, Progress
from lacuna.records import Languages, Translation
from lacuna.translator import System, Translator

MEMORY = "memory"
COMBINER = "combiner"
CALIBRATION = "calibration"


@dataclass(frozen=True, eq=False)
class Domain:
    """An adapted translator and what it consists of; opened by :func:`open_domain`."""

    path: Path
    manifest: DomainManifest
    model: Model

    def __repr__(self) -> str:
        return f"Domain({str(self.path)!r}, model={self.model.name!r}, languages={self.manifest.languages!r})"

    @property
    def name(self) -> str:
        """Name of the folder; explanations call the memory so."""
        return self.path.resolve().name

    @property
    def memory(self) -> Path:
        """Folder of the memory."""
        return self.path / MEMORY

    @cached_property
    def combiner(self) -> SavedCombiner:
        """The combiner."""
        return load_combiner(self.path / COMBINER)

    @cached_property
    def gate(self) -> Gate | None:
        """The gate, if there is one. It knows the memory as it was made."""
        return None if self.manifest.combiner.searched is None else load_gate(self.path / COMBINER)[0]

    @cached_property
    def calibration(self) -> Calibration | None:
        """The calibration, if there is one."""
        return load_calibration(self.path / CALIBRATION) if self.manifest.calibrated else None

    @cached_property
    def translator(self) -> Translator:
        """The translator, with the memory as it was at the first use."""
        return self.make_translator()

    def open_memory(self) -> Memory:
        """Open the memory under the name of the domain."""
        return open_memory(self.memory, self.name)

    def make_translator(self, beam: BeamSettings | None = None, *, int8: bool = False) -> Translator:
        """Return a translator with other settings of beam search, or with 8-bit weights."""
        return self.system(self.open_memory(), beam, int8=int8).open()

    def system(self, memory: Memory, beam: BeamSettings | None = None, *, int8: bool = False) -> System:
        """Return what decides the translations of the domain, with a state of its memory."""
        return System(
            self.model,
            [memory],
            self.combiner,
            beam,
            gate=self.gate,
            gate_entries=self.manifest.memory.entries,
            int8=int8,
        )

    def translate(
        self, texts: Sequence[str], *, evidence: bool = False, progress: Progress = SILENT
    ) -> list[Translation]:
        """Translate sentences; see :meth:`Translator.translate <lacuna.translator.Translator.translate>`."""
        return self.translator.translate(texts, evidence=evidence, progress=progress)

    def translate_file(
        self,
        path: str | Path,
        into: str | Path,
        *,
        settings: DocumentSettings | None = None,
        progress: Progress = SILENT,
    ) -> DocumentReport:
        """Translate a file, such as a PO catalog; see :func:`lacuna.documents.translate_file`."""
        return translate_file(
            self.translator, path, into, calibration=self.calibration, settings=settings, progress=progress
        )


def memory_of(path: Path) -> Path:
    """Return the memory of a domain; any other folder is a memory itself."""
    return path / MEMORY if (path / MANIFEST).is_file() else path


def open_domain(path: str | Path, *, device: str = "auto") -> Domain:
    """Open a domain, and load its model.

    :param device: As in :func:`~lacuna.models.load_model`.
    :raises DomainError: There is no domain, it is damaged, or its model is missing or has changed.
    :raises SettingError: There is no such device.
    """
    folder = Path(path)
    manifest = read_domain_manifest(folder)
    languages = None if manifest.languages is None else Languages.parse(manifest.languages)
    try:
        model = load_model(manifest.model.name, device=device, languages=languages)
    except ModelError as error:
        if manifest.model.name is None:
            raise
        raise DomainError(
            f"{folder}: its model cannot be opened ({error}); put it back there, or adapt again"
        ) from error
    if model.fingerprint != manifest.model.fingerprint:
        raise DomainError(
            f"{folder}: made with another model than the one that is now at {model.name} (fingerprint "
            f"{manifest.model.fingerprint[:12]}, not {model.fingerprint[:12]}); put that back, or adapt again"
        )
    return Domain(folder, manifest, model)
