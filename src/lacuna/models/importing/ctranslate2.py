"""Import CTranslate2 model folders, and the Argos Translate packages that contain one.

A package is a zip file, or the folder it was unpacked to. Only the known files of a model are extracted from a zip, so
no name in it can point outside of the folder. The conversion itself is in :mod:`~lacuna.models.importing.ct2_marian`.
"""

from __future__ import annotations

import json
import lzma
import shutil
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from lacuna.errors import ModelError
from lacuna.models.importing.ct2_file import ModelFile, Variables, read_model_file
from lacuna.models.importing.ct2_marian import convert_to_marian, find_pieces, read_vocabulary, write_tokenizer
from lacuna.models.importing.folder import ImportReport, write_weights
from lacuna.records import Languages

_FILES = ("metadata.json", "sentencepiece.model", "bpe.model")
_MODEL_FILES = (
    "model.bin",
    "config.json",
    "vmap.txt",
    *(f"{side}_vocabulary.{ending}" for side in ("shared", "source", "target") for ending in ("json", "txt")),
)
_MAX_BYTES = 16 * 2**30
_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError)


def is_package_folder(folder: Path) -> bool:
    """Return whether a folder is an unpacked package."""
    return (folder / "metadata.json").is_file() and (folder / "model" / "model.bin").is_file()


def unpack(package: Path, into: Path) -> None:
    """Extract the files of a model from a package, without its top folder."""
    try:
        with zipfile.ZipFile(package) as archive:
            members = _members(archive, package)
            (into / "model").mkdir(parents=True)
            for name, member in members.items():
                with archive.open(member) as stored, (into / name).open("wb") as file:
                    shutil.copyfileobj(stored, file)
    except ModelError:
        raise
    # A damaged file raises different errors, depending on the layer: zip, compression, or encryption flag.
    except (*_DAMAGE, OSError, RuntimeError, ValueError) as error:
        raise ModelError(f"{package}: cannot be unpacked ({error}); download the package again") from error


def check_package(folder: Path, name: str) -> Languages:
    """Check that an unpacked package can be imported, and return its direction."""
    try:
        metadata = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
        languages = Languages(str(metadata["from_code"]), str(metadata["to_code"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"{name}: its metadata.json has no from_code and to_code; it is not a translation package"
        ) from error
    if (folder / "bpe.model").is_file():
        raise ModelError(f"{name}: splits words by Moses and BPE (bpe.model), which a Marian tokenizer cannot do")
    if metadata.get("target_prefix"):
        raise ModelError(
            f"{name}: needs {metadata['target_prefix']} before every translation, which Marian cannot express"
        )
    return languages


def _members(archive: zipfile.ZipFile, package: Path) -> dict[str, zipfile.ZipInfo]:
    wanted = {*_FILES, *(f"model/{name}" for name in _MODEL_FILES)}
    members = {}
    for info in archive.infolist():
        path = PurePosixPath(info.filename)
        if path.is_absolute() or ".." in path.parts or "\\" in info.filename:
            raise ModelError(
                f"{package}: has a file named {info.filename!r}, outside of its folder; do not use the package"
            )
        inner = "/".join(path.parts[1:])
        if inner in wanted and not info.is_dir():
            if inner in members:
                raise ModelError(f"{package}: has {inner} twice; it is not a package of one model")
            members[inner] = info
    size = sum(info.file_size for info in members.values())
    if size > _MAX_BYTES:
        raise ModelError(f"{package}: unpacks to {size:,} bytes; at most {_MAX_BYTES:,} are accepted")
    if "model/model.bin" not in members:
        raise ModelError(f"{package}: has no model/model.bin; it is not a translation package")
    return members


_LAYER_NORM_EPSILON = 1e-5


def import_ctranslate2(
    folder: Path,
    into: Path,
    languages: Languages | None,
    *,
    kind: str = "ctranslate2",
    report_into: Path,
    pieces_in: Path | None = None,
) -> ImportReport:
    """Convert a CTranslate2 model folder into a Marian folder.

    :param into: Folder to write to; ``report_into`` is its final name.
    :param pieces_in: Another folder that may contain the sentencepiece models.
    """
    file = read_model_file(folder / "model.bin")
    if file.spec != "TransformerSpec":
        raise ModelError(f"{file.path}: is a {file.spec or 'nameless'}; only translation models can be imported")
    variables = Variables(file)
    settings = _read_settings(folder / "config.json")
    zero_start = bool(variables.setting("decoder", "start_from_zero_embedding", 0.0))
    _check_norms(variables, settings)
    _check_source_ends(variables, settings, zero_start)
    vocabulary = read_vocabulary(folder, settings, zero_start=zero_start)
    config, tensors = convert_to_marian(variables, vocabulary)
    variables.check_all_used()
    pieces = find_pieces(folder, *([] if pieces_in is None else [pieces_in]))
    rebuilt = write_tokenizer(into, vocabulary, pieces, languages, config.max_position_embeddings)
    parameters = write_weights(into, config, tensors, banned=(vocabulary.pad_id,), name=variables.name)
    sizes = (len(vocabulary.source), len(vocabulary.target))
    ignored = tuple(name for name in file.variables if "position_encodings" in name)
    return ImportReport(
        kind, report_into, parameters, *sizes, languages, ignored, _notes(folder, file, rebuilt=rebuilt)
    )


def _read_settings(path: Path) -> dict[str, object]:
    """Read config.json; models from before CTranslate2 3 have none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read ({error}); copy or download it again") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path}: is not a JSON object; copy or download it again")
    return content


def _check_norms(variables: Variables, settings: dict[str, object]) -> None:
    for side in ("encoder", "decoder"):
        if variables.setting(side, "pre_norm", 1.0):
            raise ModelError(
                f"{variables.name}: normalizes before each layer (pre-norm, as models of OpenNMT-py and the Argos "
                "packages made from them do); Marian normalizes after it, so it cannot be imported"
            )
    epsilon = settings.get("layer_norm_epsilon")
    if epsilon is not None and epsilon != _LAYER_NORM_EPSILON:
        raise ModelError(f"{variables.name}: has layer_norm_epsilon {epsilon}; Marian has {_LAYER_NORM_EPSILON}")


def _check_source_ends(variables: Variables, settings: dict[str, object], zero_start: bool) -> None:
    """Check that sources end with the end token, which the Marian tokenizer always adds."""
    said = {
        what: bool(settings.get(f"add_source_{what}")) or bool(variables.setting("", f"with_source_{what}", 0.0))
        for what in ("bos", "eos")
    }
    # Models that start from a zero vector are Marian's. These were all trained with the end token, which callers of
    # CTranslate2 add themselves.
    if said["bos"] or not (said["eos"] or zero_start):
        rule = "with a start token" if said["bos"] else "without an end token"
        raise ModelError(
            f"{variables.name}: was trained on sources {rule}, but the Marian tokenizer always writes "
            "'text </s>'; it cannot be imported"
        )


def _notes(folder: Path, file: ModelFile, *, rebuilt: bool) -> tuple[str, ...]:
    notes = []
    if rebuilt:
        notes.append(
            "sentencepiece.model covers only the source language; the target's was rebuilt from the vocabulary and may "
            "split rare words differently; to avoid this, put the original source.spm and target.spm next to model.bin"
        )
    types = {array.dtype.name for name, array in file.variables.items() if name.endswith("/weight")}
    if kept := sorted(types - {"float32"}):
        shown = ", ".join("bfloat16" if name == "uint16" else name for name in kept)
        notes.append(f"weights were stored as {shown}: the loss of precision remains")
    if (folder / "vmap.txt").is_file():
        notes.append("vmap.txt, a list of candidate translations that only saves time, was ignored")
    return tuple(notes)
