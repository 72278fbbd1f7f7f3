"""Importing CTranslate2 model folders as Marian of transformers.

Decides whether a model can be a Marian at all; its arrays are converted in ``ct2_marian``, its vocabulary in
``ct2_tokenizer``.
"""

from __future__ import annotations

import json
from pathlib import Path

from lacuna.errors import ModelError
from lacuna.models.importing.ct2_file import ModelFile, read_model_file
from lacuna.models.importing.ct2_marian import convert_to_marian
from lacuna.models.importing.ct2_tokenizer import find_pieces, read_vocabulary, write_tokenizer
from lacuna.models.importing.ct2_variables import Variables
from lacuna.models.importing.folder import ImportReport, write_weights
from lacuna.records import Languages

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
    """Read a CTranslate2 model folder and write a Marian folder.

    :param into: The folder to write to; ``report_into`` is the name it will have.
    :param pieces_in: Where sentencepiece models may lie besides the folder.
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
    write_tokenizer(into, vocabulary, pieces, languages, config.max_position_embeddings)
    parameters = write_weights(into, config, tensors, banned=(vocabulary.pad_id,), name=variables.name)
    sizes = (len(vocabulary.source), len(vocabulary.target))
    ignored = tuple(name for name in file.variables if "position_encodings" in name)
    return ImportReport(kind, report_into, parameters, *sizes, languages, ignored, _notes(folder, file))


def _read_settings(path: Path) -> dict[str, object]:
    """Read config.json; models from before CTranslate2 3 have none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read ({error}); copy or download it again") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path}: is no JSON object; copy or download it again")
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
    """See that sources end with the end token: the Marian tokenizer adds it to every source, asked or not."""
    said = {
        what: bool(settings.get(f"add_source_{what}")) or bool(variables.setting("", f"with_source_{what}", 0.0))
        for what in ("bos", "eos")
    }
    # Models that start from a zero vector are Marian's, all of which were trained with the end token; CTranslate2
    # leaves it to the caller to add it.
    if said["bos"] or not (said["eos"] or zero_start):
        rule = "with a start token" if said["bos"] else "without an end token"
        raise ModelError(
            f"{variables.name}: was trained on sources {rule}, and the Marian tokenizer writes none but "
            "'text </s>'; it cannot be imported"
        )


def _notes(folder: Path, file: ModelFile) -> tuple[str, ...]:
    notes = []
    types = {array.dtype.name for name, array in file.variables.items() if name.endswith("/weight")}
    if kept := sorted(types - {"float32"}):
        shown = ", ".join("bfloat16" if name == "uint16" else name for name in kept)
        notes.append(f"weights were stored as {shown}: what that cost in exactness stays lost")
    if (folder / "vmap.txt").is_file():
        notes.append("vmap.txt, a list of candidate translations that only saves time, was left out")
    return tuple(notes)
