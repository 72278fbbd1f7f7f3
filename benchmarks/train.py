"""Training speed against a plain Hugging Face ``Seq2SeqTrainer``: same model, same data, same batches, one run.

Usage: python benchmarks/train.py [--steps 12] [--rounds 3] [--threads 2]

Both sides get the very same padded batches, so that only the training step is compared; a plain trainer would
also waste time on padding. Each side runs in a process of its own, in turn, `--rounds` times: ours with the
allocator set up as `lacuna train` does, theirs as a user would start it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch

from lacuna.cli.train import MALLOC
from lacuna.models.training.data import Tokens, cut_batches, make_batch
from lacuna.models.training.loss import batch_loss, marian_forward
from lacuna.models.training.network import make_network, make_optimizer
from lacuna.models.training.settings import Shape, TrainSettings

VOCABULARY, PAD, END = 8001, 8000, 0
SKIPPED = 2  # first steps, in which memory is still being claimed


def make_tokens(pairs: int = 4000, seed: int = 0) -> Tokens:
    """Return random ids with lengths as in general text (median 26, long tail); speed does not depend on the text."""
    rng = np.random.default_rng(seed)
    source = np.clip(np.exp(rng.normal(3.25, 0.6, pairs)), 2, 128).astype(np.int64)
    target = np.clip(source * np.exp(rng.normal(0, 0.15, pairs)), 2, 128).astype(np.int64)
    lengths = np.stack([source, target], axis=1).reshape(-1)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    ids = rng.integers(1, VOCABULARY - 1, starts[-1]).astype(np.uint16)
    ids[starts[1:] - 1] = END
    return Tokens(ids, starts)


def make_batches(steps: int, budget: int = 3072) -> tuple[Tokens, list[np.ndarray]]:
    """Return the batches both sides train on."""
    tokens = make_tokens()
    rng = np.random.default_rng(1)
    batches = cut_batches(tokens.source_lengths, tokens.target_lengths, np.arange(len(tokens)), budget, rng)
    return tokens, batches[: steps + SKIPPED]


def run_ours(steps: int) -> float:
    """Return target tokens per second of our training step."""
    tokens, batches = make_batches(steps)
    settings = TrainSettings(steps=steps)
    torch.manual_seed(1)
    network = make_network(Shape(), VOCABULARY, END, PAD, dropout=0.0)
    forward, optimizer = marian_forward(network), make_optimizer(network, settings)
    done, started = 0, 0.0
    for number, pairs in enumerate(batches):
        if number == SKIPPED:
            started = time.perf_counter()
        batch = make_batch(tokens, pairs, PAD)
        loss, _ = batch_loss(forward, batch, settings.label_smoothing)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), settings.clip_norm, foreach=True)
        optimizer.step()
        optimizer.zero_grad()
        done += batch.tokens if number >= SKIPPED else 0
    return done / (time.perf_counter() - started)


def run_theirs(steps: int) -> float:
    """Return target tokens per second of ``Seq2SeqTrainer``, fed one ready batch per step."""
    from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, TrainerCallback

    tokens, batches = make_batches(steps)
    torch.manual_seed(1)
    network = make_network(Shape(), VOCABULARY, END, PAD, dropout=0.0)
    ready = [make_batch(tokens, pairs, PAD) for pairs in batches]
    moments: list[float] = []

    class Clock(TrainerCallback):
        """Notes when each step ends."""

        def on_step_end(self, *_: object, **__: object) -> None:
            """Note the time."""
            moments.append(time.perf_counter())

    def collate(items: list[int]) -> dict[str, torch.Tensor]:
        batch = ready[items[0]]
        labels = torch.full(batch.target_input.shape, -100).flatten()
        labels[batch.target_places] = batch.target
        mask = torch.ones_like(batch.source) if batch.source_mask is None else batch.source_mask
        return {
            "input_ids": batch.source,
            "attention_mask": mask,
            "decoder_input_ids": batch.target_input,
            "labels": labels.view(batch.target_input.shape),
        }

    with tempfile.TemporaryDirectory() as folder:
        arguments = Seq2SeqTrainingArguments(
            folder,
            per_device_train_batch_size=1,
            max_steps=len(ready),
            learning_rate=1e-3,
            label_smoothing_factor=0.1,
            max_grad_norm=1.0,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            logging_strategy="no",
            use_cpu=True,
            remove_unused_columns=False,
            train_sampling_strategy="sequential",
        )
        Seq2SeqTrainer(
            network, arguments, train_dataset=list(range(len(ready))), data_collator=collate, callbacks=[Clock()]
        ).train()
    return sum(batch.tokens for batch in ready[SKIPPED:]) / (moments[-1] - moments[SKIPPED - 1])


def run_side(side: str, steps: int, threads: int) -> float:
    """Run one side in a process of its own and return what it measured."""
    environment = {name: value for name, value in os.environ.items() if name not in MALLOC}
    environment |= {"OMP_NUM_THREADS": str(threads)} | (MALLOC if side == "ours" else {})
    command = [sys.executable, __file__, "--side", side, "--steps", str(steps)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(json.loads(result.stdout.splitlines()[-1]))


def main() -> None:
    """Print tokens per second of both sides and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--side", choices=["ours", "theirs"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(run_ours(options.steps) if options.side == "ours" else run_theirs(options.steps)))
        return
    speeds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for number in range(options.rounds):
        for side, measured in speeds.items():
            measured.append(run_side(side, options.steps, options.threads))
            print(f"round {number + 1} {side:>6}: {measured[-1]:,.0f} target tokens/s", flush=True)
    ratios = [ours / theirs for ours, theirs in zip(speeds["ours"], speeds["theirs"], strict=True)]
    print(f"lacuna train / Seq2SeqTrainer: median {statistics.median(ratios):.2f}, all {[round(r, 2) for r in ratios]}")


if __name__ == "__main__":
    main()
