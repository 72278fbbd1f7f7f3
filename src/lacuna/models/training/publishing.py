"""The folder of a trained model, and its model card ``lacuna.json``.

The card lists every run that led to the model.
"""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import AutoTokenizer, GenerationConfig, PreTrainedModel
from transformers.utils.hub import cached_file

from lacuna.artifacts.files import atomic_folder, atomic_path, sha256_of, write_json
from lacuna.models.adapter import Model
from lacuna.models.loading import quiet_transformers
from lacuna.models.training.lora import merge_adapters, save_adapter
from lacuna.records import Languages
from lacuna.version import __version__

if TYPE_CHECKING:
    from peft import PeftModel

CARD = "lacuna.json"
_FORMAT = 1
_GENERATION = "generation_config.json"


def read_runs(place: str | Path) -> list[dict[str, Any]]:
    """Return the runs listed in a model's card, oldest first; none if there is no readable card."""
    try:
        runs = json.loads((Path(place) / CARD).read_text(encoding="utf-8"))["runs"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return runs if isinstance(runs, list) else []


def publish_network(network: PreTrainedModel, run: dict[str, Any], languages: Languages, into: Path) -> None:
    """Save a network trained from scratch in half precision, next to its tokenizer, and clean up after the run.

    :param run: Entry of the card. ``config.json`` is written last: it marks the model as finished.
    """
    staging = into / "training" / "model"
    network.train(False)
    with quiet_transformers():
        network.half().save_pretrained(staging)
    for name in ("model.safetensors", _GENERATION, "config.json"):
        with atomic_path(into / name) as temporary:
            (staging / name).replace(temporary)
    staging.rmdir()
    _write_card(into, languages, read_runs(into), run, {"weights_sha256": sha256_of(into / "model.safetensors")})
    _remove_run(into / "training")


def publish_model(model: Model, adapted: PeftModel | None, run: dict[str, Any], into: Path) -> None:
    """Save a fine-tuned model as a new folder, which appears complete or not at all.

    :param model: Model with the weights to save, in full precision.
    :param adapted: Its LoRA adapters; they are saved separately and then merged into the weights.
    :param run: Entry of the card.
    """
    place = str(model.hf.name_or_path)
    with atomic_folder(into) as folder, quiet_transformers():
        if adapted is not None:
            (folder / "adapter").mkdir()
            save_adapter(adapted, folder / "adapter")
            merge_adapters(adapted)
        # The original file is copied instead: transformers refuses to write some settings that it accepts to read.
        model.hf.generation_config = GenerationConfig()
        model.hf.save_pretrained(folder)
        _copy_generation_settings(place, folder)
        # Read again: the model's own tokenizer has a direction set, and treats special tokens as text.
        AutoTokenizer.from_pretrained(place).save_pretrained(folder)
        hashes = {
            "fingerprint": replace(model, known_fingerprint=None).fingerprint,
            "files_sha256": {path.name: sha256_of(path) for path in sorted(folder.glob("*.safetensors"))},
        }
        _write_card(folder, model.languages, read_runs(place), {**run, "base": Path(model.name).name}, hashes)
        _follow_umask(folder)


def _write_card(
    folder: Path,
    languages: Languages | None,
    earlier: list[dict[str, Any]],
    run: dict[str, Any],
    hashes: dict[str, Any],
) -> None:
    card = {
        "format": _FORMAT,
        "version": __version__,
        "languages": str(languages) if languages else None,
        "runs": [*earlier, run | {"finished": time.strftime("%Y-%m-%d")}],
    }
    write_json(folder / CARD, card | hashes)


def _copy_generation_settings(place: str, folder: Path) -> None:
    original = cached_file(
        place, _GENERATION, _raise_exceptions_for_missing_entries=False, _raise_exceptions_for_connection_errors=False
    )
    if original is None:
        (folder / _GENERATION).unlink(missing_ok=True)
    else:
        shutil.copyfile(original, folder / _GENERATION)


def _remove_run(folder: Path) -> None:
    """Remove the files of a finished run, except its log."""
    for path in chain(folder.glob("*.safetensors"), folder.glob("tokens-*/*")):
        path.unlink()
    for path in folder.glob("tokens-*"):
        path.rmdir()
    number = len(list(folder.glob("log-*.jsonl"))) + 1
    (folder / "log.jsonl").replace(folder / f"log-{number}.jsonl")
    (folder / "plan.json").unlink()


def _follow_umask(folder: Path) -> None:
    """Give all files the mode of the card, to which the system applied the umask; safetensors creates private ones."""
    mode = (folder / CARD).stat().st_mode
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(mode)
