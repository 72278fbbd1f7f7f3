"""A domain: a folder with everything that an adapted translator needs, opened.

``system.json`` says what decides its translations. ``memory`` is a store with its index, ``combiner`` may have a gate,
and there may be a ``calibration``. Entries may be added to the memory later. A ``glossary.tsv`` may be added, edited or
removed at any time, so ``system.json`` does not name it. Knows nothing of adaptation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from lacuna.artifacts.manifests import read_manifest, write_sealed
from lacuna.documents import DocumentReport, DocumentSettings, translate_file
from lacuna.domain.manifest import MANIFEST, DomainManifest, read_domain_manifest
from lacuna.errors import DomainError, ModelError
from lacuna.glossaries import load_glossary
from lacuna.models import Model, load_model
from lacuna.progress import SILENT, Progress
from lacuna.records import Languages, Translation
from lacuna.translator import System, SystemRecord, Translator
from lacuna.translator.system import CombinerPart, GatePart, ModelPart

MEMORY = "memory"
COMBINER = "combiner"
CALIBRATION = "calibration"
SYSTEM = "system.json"
GLOSSARY = "glossary.tsv"


@dataclass(frozen=True, eq=False)
class Domain:
    """An adapted translator and what it consists of; opened by :func:`open_domain`."""

    path: Path
    manifest: DomainManifest
    record: SystemRecord
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
    def system(self) -> System:
        """What decides the translations, with the memory as it was at the first use."""
        return self.open_system()

    @cached_property
    def translator(self) -> Translator:
        """The translator, with the memory as it was at the first use."""
        return self.system.open()

    def open_system(self, name: str | None = None) -> System:
        """Open the parts of the system, with the memory and the glossary as they are now.

        :param name: Name of the memory in explanations; by default, that of the domain.
        """
        system = self.record.open(self.path, self.model, name=name or self.name)
        file = self.path / GLOSSARY
        return replace(system, glossary=load_glossary(file)) if file.exists() else system

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
        return translate_file(self.translator, path, into, settings=settings, progress=progress)


def memory_of(path: Path) -> Path:
    """Return the memory of a domain; any other folder is a memory itself."""
    return path / MEMORY if (path / MANIFEST).is_file() else path


def write_system_record(folder: Path, record: SystemRecord) -> None:
    """Write ``system.json``."""
    write_sealed(folder / SYSTEM, record)


def read_system_record(folder: Path, manifest: DomainManifest | None = None) -> SystemRecord:
    """Read the system of a domain.

    Without ``system.json``, as before version 0.3, it follows from the manifest; no weights are rounded, as then.

    :param manifest: That of the domain, if it was read before.
    :raises DomainError: The file is damaged or of another format.
    """
    if not (folder / SYSTEM).exists():
        return system_record(manifest or read_domain_manifest(folder)).model_copy(update={"int8": False})
    missing = f"{folder / SYSTEM}: missing; copy or adapt it again"
    return read_manifest(folder / SYSTEM, SystemRecord, DomainError, missing=missing, again="copy or adapt it again")


def system_record(manifest: DomainManifest) -> SystemRecord:
    """Return the system of a domain whose parts are in their folders, with the defaults for all that is not said."""
    gate = None
    if manifest.combiner.searched is not None:
        gate = GatePart(entries=manifest.memory.entries)
    return SystemRecord(
        model=ModelPart(name=manifest.model.name, fingerprint=manifest.model.fingerprint, languages=manifest.languages),
        memories=(MEMORY,),
        combiner=CombinerPart(kind=manifest.combiner.kind, settings=manifest.combiner.settings, folder=COMBINER),
        gate=gate,
        calibration=CALIBRATION if manifest.calibrated else None,
    )


def open_domain(path: str | Path, *, device: str = "auto", model: Model | None = None) -> Domain:
    """Open a domain, and load its model.

    :param device: As in :func:`~lacuna.models.load_model`.
    :param model: Its model, if another domain has loaded it already.
    :raises DomainError: There is no domain, it is damaged, or its model is missing or has changed.
    :raises SettingError: There is no such device.
    """
    folder = Path(path)
    manifest = read_domain_manifest(folder)
    record = read_system_record(folder, manifest)
    made_with = record.model
    languages = None if made_with.languages is None else Languages.parse(made_with.languages)
    masked = made_with.mask_placeholders
    try:
        model = model or load_model(made_with.name, device=device, languages=languages, mask_placeholders=masked)
    except ModelError as error:
        if made_with.name is None:
            raise
        raise DomainError(
            f"{folder}: its model cannot be opened ({error}); put it back there, or adapt again"
        ) from error
    if model.fingerprint != made_with.fingerprint:
        raise DomainError(
            f"{folder}: made with another model than the one that is now at {model.name} (fingerprint "
            f"{made_with.fingerprint[:12]}, not {model.fingerprint[:12]}); put that back, or adapt again"
        )
    return Domain(folder, manifest, record, model)
