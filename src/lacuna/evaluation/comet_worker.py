"""Scores segments with COMET. A script for the Python of COMET's environment; Lacuna does not import it.

``python -I comet_worker.py REQUEST ANSWER`` reads one JSON file, writes the other, and prints the number of segments
scored so far, one per line. Errors that the user can fix are one line on stderr. The script imports nothing of Lacuna,
whose pins differ from COMET's; ``-I`` keeps this folder off the import path, where our ``comet.py`` would hide COMET.
"""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any, TextIO

BATCH = 16  # segments per batch; COMET scores each independently, so it changes the speed and not the scores
ROUND = 4 * BATCH  # segments between two progress lines


def main(request_path: str, answer_path: str) -> None:
    """Score the segments of a request."""
    progress, sys.stdout = sys.stdout, sys.stderr  # the output of libraries must not mix with the progress
    request = json.loads(Path(request_path).read_text(encoding="utf-8"))
    try:
        import comet  # type: ignore[import-not-found]
        import torch
    except ImportError as error:
        sys.exit(f"unbabel-comet cannot be imported by {sys.executable} ({error}); `make comet` sets it up")
    if request["threads"]:
        torch.set_num_threads(request["threads"])
    model = load(request["checkpoint"] or download(request["model"]))
    scores = predict(model, request["samples"], placement(request["device"], torch.cuda.is_available()), progress)
    answer = {"comet": comet.__version__, "scores": scores}
    Path(answer_path).write_text(json.dumps(answer), encoding="utf-8")


def download(name: str) -> str:
    """Return the checkpoint of a model on the hub, from the local cache if possible."""
    from comet import download_model

    try:
        return str(download_model(name))
    except KeyError:  # COMET raises it for every reason
        sys.exit("not on the hub, or the hub cannot be reached; offline, name a checkpoint on disk")


def load(checkpoint: str) -> Any:  # noqa: ANN401 - COMET has no types
    """Load a checkpoint without running code in it; an environment variable forbids that to torch."""
    import torch
    from comet import load_from_checkpoint
    from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint  # type: ignore[import-not-found]

    # Old versions of Lightning saved the state of callbacks by class, and the models of 2020 were saved by them.
    torch.serialization.add_safe_globals([EarlyStopping, ModelCheckpoint])
    try:
        return load_from_checkpoint(checkpoint)
    except pickle.UnpicklingError as error:
        reason = str(error).partition("WeightsUnpickler error: ")[2].partition(". ")[0].strip().splitlines()
        sys.exit(
            f"not loaded, because it is no checkpoint or contains code ({reason[0] if reason else 'damaged'}); "
            f"only if you trust it, set TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1"
        )


def placement(device: str, has_cuda: bool) -> dict[str, Any]:
    """Return the device as arguments of ``predict``."""
    kind, _, number = ("cuda" if has_cuda else "cpu", "", "") if device == "auto" else device.partition(":")
    if kind == "cpu":
        return {"gpus": 0}
    return {"gpus": 1, "devices": [int(number or 0)], "accelerator": kind}


def predict(model: Any, samples: list[dict[str, str]], where: dict[str, Any], progress: TextIO) -> list[float]:  # noqa: ANN401
    """Return one score per sample; samples are batched by length, which saves padding."""
    order = sorted(range(len(samples)), key=lambda number: len(samples[number]["src"]))
    scores = [0.0] * len(samples)
    for start in range(0, len(order), ROUND):
        numbers = order[start : start + ROUND]
        prediction = model.predict(
            [samples[number] for number in numbers],
            batch_size=BATCH,
            num_workers=0,
            progress_bar=False,
            length_batching=False,
            **where,
        )
        for number, score in zip(numbers, prediction.scores):  # noqa: B905 - older Pythons lack strict=
            scores[number] = float(score)
        progress.write(f"{start + len(numbers)}\n")
        progress.flush()
    return scores


if __name__ == "__main__":
    main(*sys.argv[1:])
