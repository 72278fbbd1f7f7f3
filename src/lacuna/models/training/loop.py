"""The training loop: steps, evaluations, checkpoints. Knows the data as batches and the model as a network."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import MarianMTModel

from lacuna.files import write_text
from lacuna.models.training.data import Tokens, epoch_batches, make_batch, plain_batches
from lacuna.models.training.network import batch_loss, batch_negative_log_likelihood, make_optimizer
from lacuna.models.training.settings import TrainSettings, learning_share
from lacuna.models.training.state import average_weights, load_state, put_weights, save_state, save_weights
from lacuna.progress import Progress

_LOG_EVERY = 50


@dataclass(frozen=True, slots=True)
class Corpus:
    """Training tokens of all corpora one after another, with the size and weight of each."""

    tokens: Tokens
    sizes: Sequence[int]
    weights: Sequence[float]


@dataclass(slots=True)
class Counters:
    """What a run has done so far. ``seconds`` is time spent in training, not time on the clock."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    tokens: int = 0
    seconds: float = 0.0
    best: float = math.inf
    worse: int = 0
    snapshots: list[int] = field(default_factory=list)
    stopped: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the counters as the state file keeps them."""
        return {name: getattr(self, name) for name in self.__slots__}


class Run:
    """One training run in one folder; ``go`` carries it from wherever it stands to its end."""

    def __init__(
        self, network: MarianMTModel, corpus: Corpus, dev: Tokens, settings: TrainSettings, folder: Path
    ) -> None:
        self._network, self._corpus, self._dev, self._settings, self._folder = network, corpus, dev, settings, folder
        self._optimizer = make_optimizer(network, settings)
        self._state = folder / "state.safetensors"
        self._log = folder / "log.jsonl"
        self._pad_id: int = network.config.pad_token_id  # type: ignore[assignment]
        self.counters = Counters()
        self._recent: list[tuple[float, int]] = []
        if self._state.exists():
            self.counters = Counters(**load_state(self._state, network, self._optimizer))
        self._rewind_log()

    def go(self, progress: Progress) -> float:
        """Train to the end of the budget; leave the best weights in the network and return their dev perplexity."""
        budget = self._settings.steps or (self._settings.hours or 0) * 3600
        progress.start("training", total=budget)
        progress.advance(self.counters.step if self._settings.steps else self.counters.seconds)
        self._network.train()
        batches = self._batches()
        while not self.counters.stopped:
            started = time.monotonic()
            self._step(next(batches))
            spent = time.monotonic() - started
            self.counters.seconds += spent
            if self.counters.step % self._settings.evaluate_every == 0:
                self._evaluate()
            if self._finished() >= 1:
                self.counters.stopped = "budget"
            if self.counters.step % _LOG_EVERY == 0:
                self._write_log(self._averages())
            if self.counters.step % self._settings.save_every == 0 or self.counters.stopped:
                save_state(self._state, self._network, self._optimizer, self.counters.as_json())
            progress.advance(1 if self._settings.steps else spent, self._note())
        final = self._choose_final()
        progress.finish(f"({self.counters.stopped}; dev perplexity {final:.2f})")
        return final

    def dev_perplexity(self) -> float:
        """Return the perplexity per target piece, end pieces included, on the dev pairs."""
        self._network.train(False)
        total = count = 0.0
        for pairs in plain_batches(self._dev, self._settings.batch_tokens):
            batch = make_batch(self._dev, pairs, self._pad_id)
            total += batch_negative_log_likelihood(self._network, batch)
            count += batch.tokens
        self._network.train()
        return math.exp(min(total / count, 50.0))

    def _batches(self) -> Iterator[NDArray[np.int64]]:
        corpus, settings = self._corpus, self._settings
        while True:
            epoch = epoch_batches(
                corpus.tokens, corpus.sizes, corpus.weights, settings.batch_tokens, settings.seed, self.counters.epoch
            )
            while self.counters.batch < len(epoch):
                self.counters.batch += 1
                yield epoch[self.counters.batch - 1]
            self.counters.epoch, self.counters.batch = self.counters.epoch + 1, 0

    def _finished(self) -> float:
        if self._settings.steps:
            return self.counters.step / self._settings.steps
        return self.counters.seconds / ((self._settings.hours or 0) * 3600)

    def _step(self, pairs: NDArray[np.int64]) -> None:
        share = learning_share(self.counters.step, self._finished(), self._settings)
        batch = make_batch(self._corpus.tokens, pairs, self._pad_id)
        loss, likelihood = batch_loss(self._network, batch, self._settings)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._network.parameters(), self._settings.clip_norm, foreach=True)
        for group in self._optimizer.param_groups:
            group["lr"] = self._settings.learning_rate * share
        self._optimizer.step()
        self._optimizer.zero_grad()
        self.counters.step += 1
        self.counters.tokens += batch.tokens
        self._recent = [*self._recent[-_LOG_EVERY + 1 :], (float(likelihood), batch.tokens)]

    def _evaluate(self) -> None:
        perplexity = self.dev_perplexity()
        counters = self.counters
        counters.worse = 0 if perplexity < counters.best else counters.worse + 1
        counters.best = min(counters.best, perplexity)
        save_weights(self._snapshot(counters.step), self._network)
        counters.snapshots.append(counters.step)
        while len(counters.snapshots) > self._settings.average:
            self._snapshot(counters.snapshots.pop(0)).unlink(missing_ok=True)
        self._write_log({"dev_perplexity": round(perplexity, 4)})
        if self._settings.patience and counters.worse >= self._settings.patience:
            counters.stopped = "no better on dev"
        # A snapshot is named in the state only after it is on disk, and removed only after it is not.
        save_state(self._state, self._network, self._optimizer, counters.as_json())

    def _choose_final(self) -> float:
        """Keep the average of the last snapshots if it is better on dev than the last weights."""
        last = self.dev_perplexity()
        self._write_log({"final_perplexity": round(last, 4)})
        paths = [path for path in map(self._snapshot, self.counters.snapshots) if path.exists()]
        if len(paths) < 2:
            return last
        save_weights(self._folder / "last.safetensors", self._network)
        put_weights(self._network, average_weights(paths))
        averaged = self.dev_perplexity()
        if averaged > last:
            put_weights(self._network, average_weights([self._folder / "last.safetensors"]))
        self._write_log({"averaged_perplexity": round(averaged, 4)})
        return min(last, averaged)

    def _snapshot(self, step: int) -> Path:
        return self._folder / f"weights-{step:08d}.safetensors"

    def _averages(self) -> dict[str, Any]:
        total = sum(tokens for _, tokens in self._recent)
        loss = sum(loss * tokens for loss, tokens in self._recent) / max(1, total)
        return {"loss": round(loss, 4), "tokens_per_second": round(self.counters.tokens / self.counters.seconds)}

    def _note(self) -> str:
        recent = self._averages()
        best = f", dev perplexity {self.counters.best:.2f}" if self.counters.best < math.inf else ""
        return f"step {self.counters.step:,} loss {recent['loss']:.3f}{best}, {recent['tokens_per_second']:,} tokens/s"

    def _write_log(self, content: dict[str, Any]) -> None:
        counters = self.counters
        line = {"step": counters.step, "epoch": counters.epoch, "tokens": counters.tokens}
        line |= {"seconds": round(counters.seconds, 1)} | content
        with self._log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _rewind_log(self) -> None:
        """Forget lines that were written after the last checkpoint: those steps are done again."""
        if self._log.exists():
            lines = self._log.read_text(encoding="utf-8").splitlines(keepends=True)
            whole = [line for line in lines if line.endswith("\n")]
            write_text(self._log, "".join(line for line in whole if json.loads(line)["step"] <= self.counters.step))
