"""Import models of other toolkits as Hugging Face folders, without these toolkits and without running their pickles.

A feature that no supported architecture has is refused by name, and nothing is written.
"""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

from lacuna.artifacts.files import atomic_folder, check_unused
from lacuna.artifacts.locks import alone
from lacuna.errors import ModelError
from lacuna.models.importing.ctranslate2 import check_package, import_ctranslate2, is_package_folder, unpack
from lacuna.models.importing.fairseq import import_fairseq
from lacuna.models.importing.folder import ImportReport, agreed_languages
from lacuna.progress import SILENT, Progress
from lacuna.records import Languages

__all__ = ["ImportReport", "import_model", "recognize"]


def recognize(source: Path) -> str | None:
    """Recognize a file or folder: ``fairseq``, ``ctranslate2``, ``argos``, or ``None`` if it cannot be imported."""
    if source.is_dir():
        if is_package_folder(source):
            return "argos"
        if (source / "model.bin").is_file() and any(source.glob("*_vocabulary.*")):
            return "ctranslate2"
        return "fairseq" if any(source.glob("*.pt")) and any(source.glob("dict.*.txt")) else None
    if not source.is_file():
        return None
    if source.suffix == ".pt":
        return "fairseq" if any(source.parent.glob("dict.*.txt")) else None
    return "argos" if source.suffix == ".argosmodel" or _is_package(source) else None


@alone("into")
def import_model(
    source: Path,
    into: Path,
    *,
    languages: Languages | None = None,
    checkpoint: str | None = None,
    progress: Progress = SILENT,
) -> ImportReport:
    """Convert a model of another toolkit into a Hugging Face folder for :func:`lacuna.load_model`.

    :param source: A folder of fairseq or CTranslate2, a fairseq checkpoint in its folder, or an Argos package.
    :param into: A new folder.
    :param languages: The direction, if the source does not name it.
    :param checkpoint: Name of the ``.pt`` file in a fairseq folder; required if there are several and no ``model.pt``.
    """
    kind = recognize(source)
    if kind is None:
        raise ModelError(
            f"{source}: cannot be imported; allowed are a fairseq folder (.pt, dict.*.txt, bpecodes), "
            "a CTranslate2 folder (model.bin and vocabulary), and an Argos package (.argosmodel)"
        )
    if checkpoint is not None and (kind != "fairseq" or source.is_file()):
        raise ModelError(f"{source}: has no checkpoints to choose from; leave {checkpoint} out")
    check_unused(into, ModelError)
    progress.start(f"importing {source.name}")
    with atomic_folder(into) as folder:
        if kind == "fairseq":
            checkpoint_folder, name = (source, checkpoint) if source.is_dir() else (source.parent, source.name)
            report = import_fairseq(checkpoint_folder, folder, into, languages, name)
        elif kind == "ctranslate2":
            report = import_ctranslate2(source, folder, languages, report_into=into)
        else:
            report = _import_argos(source, folder, into, languages)
    progress.finish()
    return report


def _import_argos(source: Path, folder: Path, into: Path, languages: Languages | None) -> ImportReport:
    unpacked = folder / "package" if source.is_file() else source
    if source.is_file():
        unpack(source, unpacked)
    direction = agreed_languages(languages, check_package(unpacked, str(source)), str(source))
    try:
        report = import_ctranslate2(
            unpacked / "model", folder, direction, kind="argos", report_into=into, pieces_in=unpacked
        )
    except ModelError as error:
        raise ModelError(str(error).replace(str(unpacked), str(source))) from error
    if source.is_file():
        shutil.rmtree(unpacked)
    return report


def _is_package(source: Path) -> bool:
    if not zipfile.is_zipfile(source):
        return False
    try:
        with zipfile.ZipFile(source) as archive:
            return any(name.endswith("/model/model.bin") for name in archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False
