"""The run itself: steps, looks at dev, early stopping, and a state from which it goes on.

Knows the model and its pairs as tokens; nothing of the folder the model ends up in.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import chain, count, islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

from lacuna.models.adapter import Model
from lacuna.models.finetuning.objective import batch_loss, batch_negative_log_likelihood
from lacuna.models.finetuning.pairs import PairSet
from lacuna.models.finetuning.settings import FinetuneSettings
from lacuna.models.training.data import make_batch
from lacuna.models.training.state import load_state, put_weights, save_state, save_weights, trained_weights
from lacuna.progress import Progress

_LOOKS_PER_EPOCH = 4
_LOOKS_PER_RUN = 8
_MOST_STEPS_UNSEEN = 1000
# A dev batch costs about a third of a training batch, so looking takes at most about a seventh of the time.
_STEPS_PER_DEV_BATCH = 2
_RECENT = 50
_MOST_NATS = 50.0


@dataclass(slots=True)
class Counters:
    """What a run has done so far.

    :param seconds: Time spent in steps.
    :param before: Dev perplexity of the model as it came.
    :param best_step: After which step dev perplexity was best; 0 is the model as it came.
    :param worse: Evaluations since then.
    :param curve: (step, mean loss of the last steps, dev perplexity) of every evaluation.
    """

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    before: float = math.inf
    best: float = math.inf
    best_step: int = 0
    worse: int = 0
    stopped: str = ""
    curve: list[list[float]] = field(default_factory=list)

    def judge(self, perplexity: float, patience: int) -> bool:
        """Take in the dev perplexity of this step; say whether it is the best so far."""
        better = perplexity < self.best
        if better:
            self.best, self.best_step, self.worse = perplexity, self.step, 0
        else:
            self.worse += 1
        if patience and self.worse >= patience and not self.stopped:
            self.stopped = "no better on dev"
        return better


def evaluation_interval(epoch_steps: int, step_limit: int | None, dev_batches: int) -> int:
    """Choose how often to look at dev: several times an epoch, unless that would take too much of the time."""
    wanted = min(epoch_steps // _LOOKS_PER_EPOCH, _MOST_STEPS_UNSEEN)
    if step_limit is not None:
        wanted = min(wanted, step_limit // _LOOKS_PER_RUN)
    return max(1, wanted, _STEPS_PER_DEV_BATCH * dev_batches)


class Run:
    """One run in one folder; ``go`` carries it from wherever it stands to its end.

    :param model: Its network is trained, as far as its weights are not frozen.
    """

    def __init__(self, model: Model, train: PairSet, dev: PairSet, settings: FinetuneSettings, folder: Path) -> None:
        self._model, self._train, self._dev, self._settings, self._folder = model, train, dev, settings, folder
        weights = trained_weights(model.hf).values()
        self._optimizer = torch.optim.Adam(weights, lr=settings.rate, betas=(0.9, 0.98), fused=True)
        self._dev_batches = dev.batches(settings.batch_tokens, 0)
        self.epoch_steps = len(train.batches(settings.batch_tokens, settings.seed, 0))
        self._limit = settings.step_limit(self.epoch_steps)
        self._every = settings.evaluate_every or evaluation_interval(
            self.epoch_steps, self._limit, len(self._dev_batches)
        )
        self._state = folder / "state.safetensors"
        self._recent: list[tuple[float, int]] = []
        self.counters = Counters()

    def go(self, progress: Progress) -> None:
        """Train to the end, and leave the weights that were best on dev in the network."""
        self._begin()
        counters, hours = self.counters, self._settings.hours
        progress.start("fine-tuning", total=self._limit or (hours or 0) * 3600)
        progress.advance(counters.step if self._limit else counters.seconds)
        batches = self._batches()
        while not counters.stopped:
            started = time.monotonic()
            self._step(next(batches))
            spent = time.monotonic() - started
            counters.seconds += spent
            self._look_up()
            progress.advance(1 if self._limit else spent, self._note())
        put_weights(self._model.hf, load_file(self._best(counters.best_step)))
        self._model.hf.train(False)
        progress.finish(f"({counters.stopped}; dev perplexity {counters.before:.2f}, now {counters.best:.2f})")

    def dev_perplexity(self) -> float:
        """Return the perplexity per target token, end tokens included, on the dev pairs."""
        self._model.hf.train(False)
        total = tokens = 0.0
        for pairs in self._dev_batches:
            batch = make_batch(self._dev.tokens, pairs, self._model.pad_id)
            total += batch_negative_log_likelihood(self._model, batch)
            tokens += batch.tokens
        return math.exp(min(total / tokens, _MOST_NATS))

    def _begin(self) -> None:
        if self._state.exists():
            self.counters = Counters(**load_state(self._state, self._model.hf, self._optimizer))
            return
        self.counters.before = self.counters.best = self.dev_perplexity()
        save_weights(self._best(0), self._model.hf)

    def _batches(self) -> Iterator[NDArray[np.int64]]:
        """Give the batches of epoch after epoch, from the step at which the run stands."""
        budget, seed = self._settings.batch_tokens, self._settings.seed
        epochs = (self._train.batches(budget, seed, epoch) for epoch in count())
        return islice(chain.from_iterable(epochs), self.counters.step, None)

    def _finished(self) -> float:
        """Return the share of the run that is done, by whichever limit is nearer."""
        by_steps = self.counters.step / self._limit if self._limit else 0.0
        by_clock = self.counters.seconds / (self._settings.hours * 3600) if self._settings.hours else 0.0
        return max(by_steps, by_clock)

    def _rate(self) -> float:
        warmup = min(self._settings.warmup_steps, (self._limit or math.inf) / 10)
        return self._settings.rate * min((self.counters.step + 1) / max(1.0, warmup), 1 - self._finished())

    def _step(self, pairs: NDArray[np.int64]) -> None:
        self._model.hf.train()
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate()
        batch = make_batch(self._train.tokens, pairs, self._model.pad_id)
        loss, likelihood = batch_loss(self._model, batch, self._settings.label_smoothing)
        loss.backward()
        weights = trained_weights(self._model.hf).values()
        torch.nn.utils.clip_grad_norm_(weights, self._settings.clip_norm, foreach=True)
        self._optimizer.step()
        self._optimizer.zero_grad()
        self.counters.step += 1
        self.counters.tokens += batch.tokens
        self._recent = [*self._recent[-_RECENT + 1 :], (float(likelihood), batch.tokens)]

    def _look_up(self) -> None:
        """After a step: end the run, look at dev, save, as far as it is time for it."""
        if self._finished() >= 1:
            self.counters.stopped = "limit reached"
        if self.counters.stopped or self.counters.step % self._every == 0:
            self._evaluate()
        elif self.counters.step % self._settings.save_every == 0:
            self._save()

    def _evaluate(self) -> None:
        counters, outdated = self.counters, self.counters.best_step
        perplexity = self.dev_perplexity()
        counters.curve.append([counters.step, round(self._loss(), 4), round(perplexity, 4)])
        better = counters.judge(perplexity, self._settings.patience)
        if better:
            save_weights(self._best(counters.step), self._model.hf)
        # Weights are named in the state only after they are on disk, and removed only after they are not.
        self._save()
        if better:
            self._best(outdated).unlink(missing_ok=True)

    def _save(self) -> None:
        save_state(self._state, self._model.hf, self._optimizer, asdict(self.counters))

    def _best(self, step: int) -> Path:
        return self._folder / f"best-{step:08d}.safetensors"

    def _loss(self) -> float:
        return sum(loss * tokens for loss, tokens in self._recent) / max(1, sum(tokens for _, tokens in self._recent))

    def _note(self) -> str:
        counters = self.counters
        speed = counters.tokens / max(counters.seconds, 1e-9)
        dev = f"dev perplexity {counters.best:.2f} (was {counters.before:.2f})"
        return f"step {counters.step:,} loss {self._loss():.3f}, {dev}, {speed:,.0f} tokens/s"
