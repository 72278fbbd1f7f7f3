"""Fine-tuning: train a pre-trained model further on in-domain pairs and save it as a new folder.

The run is kept in ``INTO.training`` and can be interrupted and resumed; ``INTO`` appears complete, at the end.
"""

from __future__ import annotations

import copy
import json
import math
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lacuna.artifacts.files import check_unused, write_json
from lacuna.artifacts.locks import alone
from lacuna.errors import TrainingError
from lacuna.models.adapter import Model
from lacuna.models.loading import load_model
from lacuna.models.training.data import PairSet, encode_pairs, split_pairs
from lacuna.models.training.loop import KeepBest, TrainingLoop, TrainingRecipe
from lacuna.models.training.lora import add_adapters
from lacuna.models.training.loss import model_forward
from lacuna.models.training.network import count_parameters, set_dropout, trained_weights, unfreeze
from lacuna.models.training.publishing import publish_model, read_runs
from lacuna.models.training.settings import FinetuneSettings
from lacuna.progress import SILENT, Progress
from lacuna.records import Languages, SentencePair

if TYPE_CHECKING:
    from peft import PeftModel

_DEFAULTS = FinetuneSettings()
_MAX_HELD_OUT_SHARE = 0.1
_EVALUATIONS_PER_EPOCH = 4
_EVALUATIONS_PER_RUN = 8
_MAX_INTERVAL = 1000
# A dev batch costs about a third of a training batch, so evaluation takes at most about a seventh of the time.
_STEPS_PER_DEV_BATCH = 2


@dataclass(frozen=True, slots=True)
class FinetuneReport:
    """Result of fine-tuning.

    :param into: Folder of the new model.
    :param perplexity_before: Dev perplexity of the original model.
    :param perplexity_after: Dev perplexity of the saved model.
    :param improved: Whether any weights were better on dev; otherwise the original ones are saved.
    :param best_step: Step whose weights are saved; 0 for the original ones.
    :param stopped: Why the run ended.
    :param trained_parameters: Number of parameters that were trained.
    :param parameters: Number of trainable parameters of the model, without adapters.
    :param pairs: Training pairs, without held-out and skipped ones.
    :param held_out: Number of training pairs that served as dev set.
    :param too_long: Pairs of corpus and dev set that were skipped because they are too long for the model.
    :param finished_before: Whether the same command had already produced the model.
    """

    into: Path
    perplexity_before: float
    perplexity_after: float
    improved: bool
    best_step: int
    steps: int
    epochs: float
    stopped: str
    tokens: int
    tokens_per_second: float
    hours: float
    trained_parameters: int
    parameters: int
    pairs: int
    dev_pairs: int
    held_out: int
    too_long: int
    finished_before: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return asdict(self) | {"into": str(self.into)}


@alone("into")
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
    """Fine-tune a translation model and save the result as a Hugging Face folder.

    Saves the weights with the best dev perplexity, which may be the original ones. If interrupted, the same call
    resumes the run.

    :param model: A loaded model, which is not changed; or an argument of :func:`~lacuna.models.loading.load_model`,
        which also gets ``languages`` and ``device``.
    :param pairs: In-domain pairs, read once.
    :param into: A new folder.
    :param dev: Pairs for dev perplexity; without them, some of ``pairs`` are held out.
    """
    finished = _finished_run(into)
    if finished is None:
        check_unused(into, TrainingError)
    base = _copied(model) if isinstance(model, Model) else load_model(model, device=device, languages=languages)
    train, held = _choose_pairs(base, pairs, dev, settings, progress)
    plan = _plan(base, train, held, settings)
    resolved = into.resolve()  # "." has no name of its own
    run_folder = resolved.with_name(f"{resolved.name}.training")
    if finished is None:
        report = _run(base, train, held, settings, plan, into, run_folder, progress)
    elif finished["plan"] == plan:
        report = FinetuneReport(into=into, **finished["report"], finished_before=True)
    else:
        raise TrainingError(f"{into}: holds a model fine-tuned with other pairs, model or settings; name a new folder")
    shutil.rmtree(run_folder, ignore_errors=True)
    return report


def _finished_run(into: Path) -> dict[str, Any] | None:
    """Return the card's entry of the fine-tuning run that produced the model in a folder, if there is one."""
    runs = read_runs(into)
    return runs[-1] if runs and "plan" in runs[-1] else None


def _copied(model: Model) -> Model:
    return model.with_hf(copy.deepcopy(model.hf).float())


def _choose_pairs(
    model: Model,
    pairs: Iterable[SentencePair],
    dev: Iterable[SentencePair] | None,
    settings: FinetuneSettings,
    progress: Progress,
) -> tuple[PairSet, PairSet]:
    train = encode_for(model, pairs, "corpus", progress)
    if dev is None:
        return hold_out(train, settings.held_out, settings.seed)
    return train, encode_for(model, dev, "dev", progress)


def encode_for(model: Model, pairs: Iterable[SentencePair], what: str, progress: Progress) -> PairSet:
    """Encode pairs with a model's own tokenizer."""
    return encode_pairs(pairs, model, model.max_length, len(model.start_ids), np.int32, what, progress)


def hold_out(pairs: PairSet, at_most: int, seed: int) -> tuple[PairSet, PairSet]:
    """Split pairs at random into training and dev pairs."""
    count = min(at_most, int(len(pairs) * _MAX_HELD_OUT_SHARE))
    if not count:
        raise TrainingError(f"{len(pairs)} training pairs are too few to hold some out; give `dev`, or 10 or more")
    [everything] = pairs.parts
    return split_pairs(pairs, np.random.default_rng(seed).permutation(everything)[:count])


def _plan(base: Model, train: PairSet, dev: PairSet, settings: FinetuneSettings) -> dict[str, Any]:
    """Return everything the result depends on; runs with equal plans are the same run."""
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
    unfreeze(base.hf)
    parameters = count_parameters(base.hf)
    torch.manual_seed(settings.seed)
    adapted = _make_trainable(base, settings)
    trained = count_parameters(base.hf)
    run = TrainingLoop(_recipe(base, train, dev, settings), folder)
    _claim(folder, plan)
    perplexity = run.train(progress)
    counters = run.counters
    report = FinetuneReport(
        into=into,
        perplexity_before=round(counters.before, 4),
        perplexity_after=round(perplexity, 4),
        improved=counters.best_step > 0,
        best_step=counters.best_step,
        steps=counters.step,
        epochs=round(counters.step / run.epoch_steps, 3),
        stopped=counters.stopped,
        tokens=counters.tokens,
        tokens_per_second=round(counters.tokens_per_second, 1),
        hours=round(counters.seconds / 3600, 4),
        trained_parameters=trained,
        parameters=parameters,
        pairs=len(train),
        dev_pairs=len(dev),
        held_out=len(dev) if dev.tokens is train.tokens else 0,
        too_long=train.too_long + dev.too_long,
    )
    outcome = {name: value for name, value in report.as_json().items() if name not in ("into", "finished_before")}
    data = {"corpus": train.names, "dev": dev.names}
    publish_model(base, adapted, {"plan": plan, "data": data, "curve": counters.curve, "report": outcome}, into)
    return report


def _make_trainable(model: Model, settings: FinetuneSettings) -> PeftModel | None:
    if settings.dropout is not None:
        set_dropout(model.hf, settings.dropout)
    if settings.lora is None:
        return None
    return add_adapters(model.hf, settings.lora, Path(model.name).name if Path(model.name).is_dir() else model.name)


def _recipe(model: Model, train: PairSet, dev: PairSet, settings: FinetuneSettings) -> TrainingRecipe:
    rate, weights = settings.peak_learning_rate, trained_weights(model.hf).values()
    epoch_steps = len(train.batches(settings.batch_tokens, settings.seed, 0))
    dev_batches = len(dev.batches(settings.batch_tokens, 0))
    limit = settings.step_limit(epoch_steps)
    return TrainingRecipe(
        label="fine-tuning",
        module=model.hf,
        network=model_forward(model),
        optimizer=torch.optim.Adam(weights, lr=rate, betas=(0.9, 0.98), fused=True),
        train=train,
        dev=dev,
        pad_id=model.pad_id,
        selection=KeepBest(),
        settings=settings,
        learning_rate=rate,
        warmup_steps=min(settings.warmup_steps, (limit or math.inf) / 10),
        decay_share=1.0,
        lexical_weight=0.0,
        steps=limit,
        evaluate_every=settings.evaluate_every or evaluation_interval(epoch_steps, limit, dev_batches),
        limit_reached="limit reached",
    )


def evaluation_interval(epoch_steps: int, step_limit: int | None, dev_batches: int) -> int:
    """Choose the steps between two evaluations: several per epoch, unless that would take too much of the time."""
    wanted = min(epoch_steps // _EVALUATIONS_PER_EPOCH, _MAX_INTERVAL)
    if step_limit is not None:
        wanted = min(wanted, step_limit // _EVALUATIONS_PER_RUN)
    return max(1, wanted, _STEPS_PER_DEV_BATCH * dev_batches)


def _claim(folder: Path, plan: dict[str, Any]) -> None:
    """Create the run's folder, or check that it holds the same run, interrupted."""
    plan_file = folder / "plan.json"
    if not plan_file.exists():
        check_unused(folder, TrainingError)
        return write_json(plan_file, plan)
    if json.loads(plan_file.read_text(encoding="utf-8")) != plan:
        raise TrainingError(
            f"{folder}: holds an unfinished run with other pairs, model or settings; "
            "repeat its command to resume it, remove the folder, or fine-tune into another one"
        )
