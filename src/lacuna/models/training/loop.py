"""The training loop: steps, evaluation on dev, early stopping, checkpoints and resuming.

A :class:`TrainingRecipe` says what is trained and how; :mod:`~lacuna.models.training.scratch` and
:mod:`~lacuna.models.training.finetuning` each make one.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import nn
from torch.optim.optimizer import Optimizer

from lacuna.artifacts.files import atomic_path, write_text
from lacuna.errors import TrainingError
from lacuna.models.training.data import PairSet, make_batch
from lacuna.models.training.loss import Network, batch_loss, batch_negative_log_likelihood
from lacuna.models.training.network import put_weights, trained_weights
from lacuna.models.training.settings import FinetuneSettings, TrainSettings
from lacuna.progress import Progress
from lacuna.workers import WorkerPool

_LOG_EVERY = 50
_MAX_NATS = 50.0


@dataclass(slots=True)
class Counters:
    """State of a run besides its weights; part of every checkpoint.

    :param epoch: Current epoch.
    :param batch: Batches of the current epoch that are done.
    :param tokens: Target tokens seen.
    :param seconds: Time spent in steps.
    :param before: Dev perplexity before the first step, if measured.
    :param best: Best dev perplexity.
    :param best_step: Step of the best dev perplexity; 0 is the initial model.
    :param worse: Evaluations since then.
    :param snapshots: Steps whose weights are on disk.
    :param stopped: Why the run ended; empty while it is not finished.
    :param curve: (step, mean training loss of the last steps, dev perplexity) of every evaluation.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    tokens: int = 0
    seconds: float = 0.0
    before: float = math.inf
    best: float = math.inf
    best_step: int = 0
    worse: int = 0
    snapshots: list[int] = field(default_factory=list)
    stopped: str = ""
    curve: list[list[float]] = field(default_factory=list)

    @classmethod
    def restore(cls, content: Mapping[str, Any], epoch_steps: int) -> Counters:
        """Restore counters from a checkpoint; fine-tuning in version 0.1 did not store epochs and snapshots."""
        if "epoch" not in content:
            epoch, batch = divmod(content["step"], epoch_steps)
            content = {**content, "epoch": epoch, "batch": batch, "snapshots": [content["best_step"]]}
        return cls(**content)

    @property
    def tokens_per_second(self) -> float:
        """Training speed."""
        return self.tokens / max(self.seconds, 1e-9)

    def judge(self, perplexity: float, patience: int) -> bool:
        """Record the dev perplexity of this step, and stop early if needed; return whether it is the best so far."""
        better = perplexity < self.best
        if better:
            self.best, self.best_step, self.worse = perplexity, self.step, 0
        else:
            self.worse += 1
        if patience and self.worse >= patience and not self.stopped:
            self.stopped = "no better on dev"
        return better


@dataclass(frozen=True, slots=True)
class AverageLast:
    """End with the average of the last evaluated weights, if it is better on dev than the last weights.

    :param count: Number of weights that are averaged.
    """

    count: int
    prefix: ClassVar[str] = "weights"
    evaluates_ends: ClassVar[bool] = False

    def keep(self, snapshots: list[int], step: int, better: bool) -> list[int]:
        """Return the steps whose weights are kept after an evaluation."""
        return [*snapshots, step][-self.count :]

    def finish(self, run: TrainingLoop) -> float:
        """Put the final weights into the network and return their dev perplexity."""
        module, last = run.recipe.module, run.dev_perplexity()
        run.write_log({"final_perplexity": round(last, 4)})
        paths = [path for path in map(run.snapshot_path, run.counters.snapshots) if path.exists()]
        if len(paths) < 2:
            return last
        last_weights = {name: weight.detach().clone() for name, weight in trained_weights(module).items()}
        put_weights(module, average_weights(paths))
        averaged = run.dev_perplexity()
        if averaged > last:
            put_weights(module, last_weights)
        run.write_log({"averaged_perplexity": round(averaged, 4)})
        return min(last, averaged)


@dataclass(frozen=True, slots=True)
class KeepBest:
    """End with the weights that were best on dev, which may be the initial ones."""

    prefix: ClassVar[str] = "best"
    evaluates_ends: ClassVar[bool] = True

    def keep(self, snapshots: list[int], step: int, better: bool) -> list[int]:
        """Return the steps whose weights are kept after an evaluation."""
        return [step] if better else snapshots

    def finish(self, run: TrainingLoop) -> float:
        """Put the final weights into the network and return their dev perplexity."""
        put_weights(run.recipe.module, load_file(run.snapshot_path(run.counters.best_step)))
        return run.counters.best


@dataclass(frozen=True, slots=True)
class TrainingRecipe:
    """What is trained, on what, and how.

    :param label: Name of the work in the progress display.
    :param module: Its weights are trained, unless they are frozen.
    :param network: Runs the module on a batch.
    :param selection: Chooses the final weights.
    :param settings: For what both kinds of training have in common.
    :param decay_share: Final share of the run in which the learning rate decays linearly to zero.
    :param steps: Limit on steps; the limit on time is in ``settings``.
    :param limit_reached: Reason that is reported when a limit ends the run.
    """

    label: str
    module: nn.Module
    network: Network
    optimizer: Optimizer
    train: PairSet
    dev: PairSet
    pad_id: int
    selection: AverageLast | KeepBest
    settings: TrainSettings | FinetuneSettings
    learning_rate: float
    warmup_steps: float
    decay_share: float
    lexical_weight: float
    steps: int | None
    evaluate_every: int
    limit_reached: str

    @property
    def hours(self) -> float | None:
        """Limit on time spent in steps."""
        return self.settings.hours

    def epoch_batches(self, epoch: int) -> list[NDArray[np.int64]]:
        """Return the training batches of an epoch."""
        return self.train.batches(self.settings.batch_tokens, self.settings.seed, epoch)


def learning_rate_factor(step: int, finished: float, warmup_steps: float, decay_share: float) -> float:
    """Return the factor of the learning rate: linear warm-up, constant, linear decay to zero.

    :param step: Steps done so far.
    :param finished: Share of the run that is done, 0 to 1.
    """
    rising = min(1.0, (step + 1) / max(1, warmup_steps))
    falling = min(1.0, max(0.0, 1.0 - finished) / decay_share)
    return min(rising, falling)


class TrainingLoop:
    """One run in one folder; :meth:`train` resumes it from its last checkpoint, if there is one.

    :param first_epoch: Number of the first epoch, which determines the order of the pairs.
    """

    def __init__(self, recipe: TrainingRecipe, folder: Path, first_epoch: int = 0) -> None:
        self.recipe = recipe
        self.counters = Counters(epoch=first_epoch)
        self.epoch_steps = len(recipe.epoch_batches(0))
        self._folder = folder
        self._state, self._log = folder / "state.safetensors", folder / "log.jsonl"
        self._device = next(recipe.module.parameters()).device
        self._dev_batches = recipe.dev.batches(recipe.settings.batch_tokens, 0)
        self._recent: list[tuple[float, int]] = []

    def train(self, progress: Progress) -> float:
        """Train until the run ends; leave the final weights in the module and return their dev perplexity."""
        recipe = self.recipe
        self._restore()
        counters = self.counters
        progress.start(recipe.label, total=recipe.steps or (recipe.hours or 0) * 3600)
        progress.advance(counters.step if recipe.steps else counters.seconds)
        batches = self._batches()
        while not counters.stopped:
            started = time.monotonic()
            self._step(next(batches))
            spent = time.monotonic() - started
            counters.seconds += spent
            self._after_step()
            progress.advance(1 if recipe.steps else spent, self._note())
        perplexity = recipe.selection.finish(self)
        recipe.module.train(False)
        before = f"{counters.before:.2f}, now " if counters.before < math.inf else ""
        progress.finish(f"({counters.stopped}; dev perplexity {before}{perplexity:.2f})")
        return perplexity

    def dev_perplexity(self) -> float:
        """Return the perplexity per target token, end tokens included, on the dev pairs."""
        recipe = self.recipe
        recipe.module.train(False)

        def evaluate(pairs: NDArray[np.int64]) -> tuple[float, int]:
            batch = make_batch(recipe.dev.tokens, pairs, recipe.pad_id).to(self._device)
            return batch_negative_log_likelihood(recipe.network, batch), batch.tokens

        results = list(WorkerPool.of_process(self._device).map(evaluate, self._dev_batches))
        total, tokens = (sum(column) for column in zip(*results, strict=True))
        return math.exp(min(total / tokens, _MAX_NATS))

    def snapshot_path(self, step: int) -> Path:
        """Return the file with the weights of a step."""
        return self._folder / f"{self.recipe.selection.prefix}-{step:08d}.safetensors"

    def write_log(self, content: dict[str, Any]) -> None:
        """Append a line to the log."""
        counters = self.counters
        line = {"step": counters.step, "epoch": counters.epoch, "tokens": counters.tokens}
        line |= {"seconds": round(counters.seconds, 1)} | content
        with self._log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _restore(self) -> None:
        if self._state.exists():
            content = load_state(self._state, self.recipe.module, self.recipe.optimizer)
            self.counters = Counters.restore(content, self.epoch_steps)
        elif self.recipe.selection.evaluates_ends:
            self.counters.before = self.counters.best = self.dev_perplexity()
            self._keep_weights(better=True)
        self._rewind_log()

    def _batches(self) -> Iterator[NDArray[np.int64]]:
        recipe, counters = self.recipe, self.counters
        while True:
            epoch = recipe.epoch_batches(counters.epoch)
            while counters.batch < len(epoch):
                counters.batch += 1
                yield epoch[counters.batch - 1]
            counters.epoch, counters.batch = counters.epoch + 1, 0

    def _finished(self) -> float:
        """Return the share of the run that is done, by the nearer limit."""
        by_steps = self.counters.step / self.recipe.steps if self.recipe.steps else 0.0
        by_clock = self.counters.seconds / (self.recipe.hours * 3600) if self.recipe.hours else 0.0
        return max(by_steps, by_clock)

    def _step(self, pairs: NDArray[np.int64]) -> None:
        recipe, counters = self.recipe, self.counters
        recipe.module.train()
        factor = learning_rate_factor(counters.step, self._finished(), recipe.warmup_steps, recipe.decay_share)
        for group in recipe.optimizer.param_groups:
            group["lr"] = recipe.learning_rate * factor
        batch = make_batch(recipe.train.tokens, pairs, recipe.pad_id).to(self._device)
        smoothing, clip_norm = recipe.settings.label_smoothing, recipe.settings.clip_norm
        loss, likelihood = batch_loss(recipe.network, batch, smoothing, recipe.lexical_weight)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained_weights(recipe.module).values(), clip_norm, foreach=True)
        recipe.optimizer.step()
        recipe.optimizer.zero_grad()
        counters.step += 1
        counters.tokens += batch.tokens
        self._recent = [*self._recent[-_LOG_EVERY + 1 :], (float(likelihood), batch.tokens)]

    def _after_step(self) -> None:
        """End the run, evaluate, log and save, whatever is due."""
        recipe, counters = self.recipe, self.counters
        if self._finished() >= 1:
            counters.stopped = recipe.limit_reached
        evaluated = counters.step % recipe.evaluate_every == 0 or (
            counters.stopped != "" and recipe.selection.evaluates_ends
        )
        if evaluated:
            self._evaluate()
        if counters.step % _LOG_EVERY == 0:
            loss, speed = round(self._loss(), 4), round(counters.tokens_per_second)
            self.write_log({"loss": loss, "tokens_per_second": speed})
        if not evaluated and (counters.step % recipe.settings.save_every == 0 or counters.stopped):
            self._save()

    def _evaluate(self) -> None:
        counters = self.counters
        perplexity = self.dev_perplexity()
        counters.curve.append([counters.step, round(self._loss(), 4), round(perplexity, 4)])
        outdated = {*counters.snapshots}
        self._keep_weights(counters.judge(perplexity, self.recipe.settings.patience))
        self.write_log({"dev_perplexity": round(perplexity, 4)})
        # A checkpoint names weights only while they are on disk: save them before it, and remove them after it.
        self._save()
        for step in outdated - {*counters.snapshots}:
            self.snapshot_path(step).unlink(missing_ok=True)

    def _keep_weights(self, better: bool) -> None:
        counters = self.counters
        kept = self.recipe.selection.keep(counters.snapshots, counters.step, better)
        if counters.step in kept:
            save_weights(self.snapshot_path(counters.step), self.recipe.module)
        counters.snapshots = kept

    def _save(self) -> None:
        save_state(self._state, self.recipe.module, self.recipe.optimizer, asdict(self.counters))

    def _loss(self) -> float:
        """Return the mean loss per token of the last steps."""
        return sum(loss * tokens for loss, tokens in self._recent) / max(1, sum(tokens for _, tokens in self._recent))

    def _note(self) -> str:
        counters = self.counters
        dev = f", dev perplexity {counters.best:.2f}" if counters.best < math.inf else ""
        before = f" (was {counters.before:.2f})" if counters.before < math.inf else ""
        speed = f"{counters.tokens_per_second:,.0f} tokens/s"
        return f"step {counters.step:,} loss {self._loss():.3f}{dev}{before}, {speed}"

    def _rewind_log(self) -> None:
        """Remove lines written after the last checkpoint: those steps are repeated."""
        if self._log.exists():
            lines = self._log.read_text(encoding="utf-8").splitlines(keepends=True)
            whole = [line for line in lines if line.endswith("\n")]
            write_text(self._log, "".join(line for line in whole if json.loads(line)["step"] <= self.counters.step))


def save_state(path: Path, network: nn.Module, optimizer: Optimizer, counters: Mapping[str, Any]) -> None:
    """Write a checkpoint: weights, optimizer state, random generator, and the counters as JSON in the header."""
    tensors = {f"weight/{name}": weight for name, weight in trained_weights(network).items()}
    for parameter, moments in optimizer.state_dict()["state"].items():
        for name, value in moments.items():
            tensors[f"moment/{parameter}/{name}"] = torch.as_tensor(value)
    tensors["random"] = torch.get_rng_state()
    # safetensors refuses tensors that share memory, e.g. the scalar step of several groups.
    content = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
    with atomic_path(path) as temporary:
        save_file(content, temporary, metadata={"counters": json.dumps(counters)})


def load_state(path: Path, network: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """Restore a checkpoint and return its counters."""
    try:
        with safe_open(path, framework="pt") as file:
            counters: dict[str, Any] = json.loads(file.metadata()["counters"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, KeyError, ValueError) as error:
        raise TrainingError(f"{path}: not a checkpoint ({error}); remove it to start over") from error
    put_weights(network, {name.removeprefix("weight/"): t for name, t in tensors.items() if name.startswith("weight/")})
    moments: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        kind, *parts = name.split("/")
        if kind == "moment":
            moments.setdefault(int(parts[0]), {})[parts[1]] = tensor
    optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})
    torch.set_rng_state(tensors["random"])
    return counters


def save_weights(path: Path, network: nn.Module) -> None:
    """Write the trainable weights alone."""
    with atomic_path(path) as temporary:
        save_file({name: weight.detach().contiguous() for name, weight in trained_weights(network).items()}, temporary)


def average_weights(paths: Sequence[Path]) -> dict[str, torch.Tensor]:
    """Return the mean of saved weights, summed in float64 so that the order does not matter."""
    total: dict[str, torch.Tensor] = {}
    for path in paths:
        for name, weight in load_file(path).items():
            total[name] = total[name] + weight.double() if name in total else weight.double()
    return {name: (weight / len(paths)).float() for name, weight in total.items()}
