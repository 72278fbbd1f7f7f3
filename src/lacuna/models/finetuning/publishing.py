"""The folder of a fine-tuned model: an ordinary Hugging Face folder, with the card that says how it came about.

Knows nothing of training.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import AutoTokenizer, PreTrainedModel
from transformers.utils import logging as transformers_logging
from transformers.utils.hub import cached_file

from lacuna.files import atomic_folder, sha256_of, write_json
from lacuna.models.adapter import Model
from lacuna.models.finetuning.lora import merge_adapters, save_adapter
from lacuna.models.finetuning.report import CARD, FinetuneReport, read_runs
from lacuna.version import __version__

if TYPE_CHECKING:
    from peft import PeftModel

_FORMAT = 1
_GENERATION = "generation_config.json"


def publish(model: Model, adapted: PeftModel | None, report: FinetuneReport, record: dict[str, Any]) -> None:
    """Write the folder ``report.into``: whole, or not at all.

    :param model: With the weights to save, in full precision.
    :param adapted: Its adapters, which are saved by themselves and then folded into the weights.
    :param record: What else the card shall keep of the run.
    """
    place = str(model.hf.name_or_path)
    with atomic_folder(report.into) as folder:
        if adapted is not None:
            (folder / "adapter").mkdir()
            save_adapter(adapted, folder / "adapter")
            merge_adapters(adapted)
        _save_network(model.hf, folder)
        _restore_generation_settings(place, folder)
        # Read anew: the model's own was told a direction, and to take special tokens for text.
        AutoTokenizer.from_pretrained(place).save_pretrained(folder)
        write_json(folder / CARD, _card(model, report, record, folder))
        _follow_umask(folder)


def _save_network(network: PreTrainedModel, folder: Path) -> None:
    """Save without transformers' own bar, which would be drawn into ours."""
    drawn = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        network.save_pretrained(folder)
    finally:
        if drawn:
            transformers_logging.enable_progress_bar()


def _restore_generation_settings(place: str, folder: Path) -> None:
    """Put the settings of the original back; loading had emptied them."""
    original = cached_file(
        place, _GENERATION, _raise_exceptions_for_missing_entries=False, _raise_exceptions_for_connection_errors=False
    )
    if original is None:
        (folder / _GENERATION).unlink(missing_ok=True)
    else:
        shutil.copyfile(original, folder / _GENERATION)


def _card(model: Model, report: FinetuneReport, record: dict[str, Any], folder: Path) -> dict[str, Any]:
    outcome = report.as_json()
    for name in ("into", "finished_before"):  # where it lay, and when it was asked, are no part of what it is
        outcome.pop(name)
    run = record | {"report": outcome, "base": Path(model.name).name, "finished": time.strftime("%Y-%m-%d")}
    return {
        "format": _FORMAT,
        "version": __version__,
        "languages": str(model.languages) if model.languages else None,
        "fingerprint": replace(model, known_fingerprint=None).fingerprint,
        "files_sha256": {path.name: sha256_of(path) for path in sorted(folder.glob("*.safetensors"))},
        "runs": [*read_runs(str(model.hf.name_or_path)), run],
    }


def _follow_umask(folder: Path) -> None:
    """Make files as readable as the user wants new files to be: safetensors makes them private."""
    umask = os.umask(0)
    os.umask(umask)
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(0o666 & ~umask)
