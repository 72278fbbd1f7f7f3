"""From a model and in-domain pairs to a new model folder, by a run that may be broken off and taken up at any time.

While it lasts, the run lies beside the new folder, as ``INTO.training``. The new folder appears whole, at the end.
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lacuna.errors import TrainingError
from lacuna.files import check_unused, write_json
from lacuna.models.adapter import Model
from lacuna.models.finetuning.loop import Run
from lacuna.models.finetuning.lora import add_adapters
from lacuna.models.finetuning.objective import set_dropout
from lacuna.models.finetuning.pairs import PairSet, encode_corpus, hold_out
from lacuna.models.finetuning.publishing import publish
from lacuna.models.finetuning.report import FinetuneReport, finished_run, report_of
from lacuna.models.finetuning.settings import FinetuneSettings
from lacuna.models.loading import load_model
from lacuna.models.training.state import trained_weights
from lacuna.progress import SILENT, Progress
from lacuna.records import Languages, SentencePair

if TYPE_CHECKING:
    from peft import PeftModel

_DEFAULTS = FinetuneSettings()


def finetune_model(
    model: Model | str | Path | None,
    pairs: Iterable[SentencePair],
    into: Path,
    settings: FinetuneSettings = _DEFAULTS,
    *,
    dev: Iterable[SentencePair] | None = None,
    languages: Languages | None = None,
    device: str = "auto",
    progress: Progress = SILENT,
) -> FinetuneReport:
    """Fine-tune a translation model and save the result as an ordinary Hugging Face folder.

    The weights that were best on dev are saved, which may be the original ones. Interrupted at any moment, the same
    call goes on where the run stood.

    :param model: A model, which is left as it is; or what :func:`~lacuna.models.loading.load_model` takes, together
        with ``languages`` and ``device``.
    :param pairs: In-domain pairs, read once.
    :param into: A new folder.
    :param dev: Pairs to measure perplexity on; without them some of ``pairs`` are held out.
    """
    finished = finished_run(into)
    if finished is None:
        check_unused(into, TrainingError)
    base = _copied(model) if isinstance(model, Model) else load_model(model, device=device, languages=languages)
    train, held = _choose_pairs(base, pairs, dev, settings, progress)
    plan = _plan(base, train, held, settings)
    place = into.resolve()  # "." has no name of its own
    run_folder = place.with_name(f"{place.name}.training")
    if finished is None:
        report = _run(base, train, held, settings, plan, into, run_folder, progress)
    elif finished["plan"] == plan:
        report = report_of(finished, into)
    else:
        raise TrainingError(f"{into}: holds a model fine-tuned with other pairs, model or settings; name a new folder")
    shutil.rmtree(run_folder, ignore_errors=True)
    return report


def _copied(model: Model) -> Model:
    return replace(model, hf=copy.deepcopy(model.hf).float(), known_fingerprint=None)


def _choose_pairs(
    model: Model,
    pairs: Iterable[SentencePair],
    dev: Iterable[SentencePair] | None,
    settings: FinetuneSettings,
    progress: Progress,
) -> tuple[PairSet, PairSet]:
    train = encode_corpus(model, pairs, "corpus", progress)
    if dev is None:
        return hold_out(train, settings.held_out, settings.seed)
    return train, encode_corpus(model, dev, "dev", progress)


def _plan(base: Model, train: PairSet, dev: PairSet, settings: FinetuneSettings) -> dict[str, Any]:
    """Say what decides a run; two runs with the same plan are the same run."""
    plan = {
        "kind": "finetune",
        "base": base.fingerprint,
        "start_ids": base.start_ids,
        "train": train.digest(),
        "dev": dev.digest(),
        "settings": settings.as_json(),
    }
    content: dict[str, Any] = json.loads(json.dumps(plan))
    return content


def _run(
    base: Model,
    train: PairSet,
    dev: PairSet,
    settings: FinetuneSettings,
    plan: dict[str, Any],
    into: Path,
    folder: Path,
    progress: Progress,
) -> FinetuneReport:
    parameters = _unfreeze(base)
    torch.manual_seed(settings.seed)
    adapted = _make_trainable(base, settings)
    trained = sum(weight.numel() for weight in trained_weights(base.hf).values())
    run = Run(base, train, dev, settings, folder)
    _claim(folder, plan)
    run.go(progress)
    counters = run.counters
    report = FinetuneReport(
        into=into,
        perplexity_before=round(counters.before, 4),
        perplexity_after=round(counters.best, 4),
        improved=counters.best_step > 0,
        best_step=counters.best_step,
        steps=counters.step,
        epochs=round(counters.step / run.epoch_steps, 3),
        stopped=counters.stopped,
        tokens=counters.tokens,
        tokens_per_second=round(counters.tokens / max(counters.seconds, 1e-9), 1),
        hours=round(counters.seconds / 3600, 4),
        trained_parameters=trained,
        parameters=parameters,
        pairs=len(train),
        dev_pairs=len(dev),
        held_out=len(dev) if dev.tokens is train.tokens else 0,
        too_long=train.too_long + dev.too_long,
    )
    data = {"corpus": train.names, "dev": dev.names}
    publish(base, adapted, report, {"plan": plan, "data": data, "curve": counters.curve})
    return report


def _unfreeze(model: Model) -> int:
    """Let every weight be trained but positions that are a formula; return how many numbers these are."""
    model.hf.requires_grad_(True)
    for module in model.hf.modules():
        if "Sinusoidal" in type(module).__name__:
            module.requires_grad_(False)
    return sum(weight.numel() for weight in trained_weights(model.hf).values())


def _make_trainable(model: Model, settings: FinetuneSettings) -> PeftModel | None:
    if settings.dropout is not None:
        set_dropout(model.hf, settings.dropout)
    if settings.lora is None:
        return None
    return add_adapters(model.hf, settings.lora, Path(model.name).name if Path(model.name).is_dir() else model.name)


def _claim(folder: Path, plan: dict[str, Any]) -> None:
    """Take the run's folder: a new one, or that of the same run broken off."""
    plan_file = folder / "plan.json"
    if not plan_file.exists():
        check_unused(folder, TrainingError)
        return write_json(plan_file, plan)
    if json.loads(plan_file.read_text(encoding="utf-8")) != plan:
        raise TrainingError(
            f"{folder}: holds an unfinished run with other pairs, model or settings; "
            "repeat its command to go on, remove the folder, or fine-tune into another one"
        )
