"""Scores segments with COMET; run as a script by the Python of COMET's own environment, never imported by Lacuna.

``python -I comet_worker.py REQUEST ANSWER``: reads one JSON file, writes the other, and prints the number of segments
scored so far, one per line. What the user can mend ends with one line on stderr. It imports nothing of Lacuna, whose
pins differ from COMET's; ``-I`` keeps this folder off the import path, where our own ``comet.py`` would hide COMET.
"""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any, TextIO

BATCH = 16  # segments at once; COMET treats each by itself, so it changes the speed and not the scores
ROUND = 4 * BATCH  # segments between two words of progress


def main(request_path: str, answer_path: str) -> None:
    """Score what the request holds."""
    progress, sys.stdout = sys.stdout, sys.stderr  # libraries print, too, and would be taken for progress
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
    """Return the checkpoint of a model on the hub, from the local cache if it is there."""
    from comet import download_model

    try:
        return str(download_model(name))
    except KeyError:  # all that COMET says, whatever the reason
        sys.exit("not on the hub, or the hub cannot be reached; offline, name a checkpoint on disk")


def load(checkpoint: str) -> Any:  # noqa: ANN401 - COMET has no types
    """Load a checkpoint without running code that it may hold: torch is told so by the environment."""
    import torch
    from comet import load_from_checkpoint
    from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint  # type: ignore[import-not-found]

    # Lightning used to note the state of its callbacks under their classes, and the models of 2020 were saved by it.
    torch.serialization.add_safe_globals([EarlyStopping, ModelCheckpoint])
    try:
        return load_from_checkpoint(checkpoint)
    except pickle.UnpicklingError as error:
        reason = str(error).partition("WeightsUnpickler error: ")[2].partition(". ")[0].strip().splitlines()
        sys.exit(
            f"not loaded, since it is no checkpoint or holds code ({reason[0] if reason else 'damaged'}); "
            f"only if you trust it, set TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1"
        )


def placement(device: str, has_cuda: bool) -> dict[str, Any]:
    """Say where to compute in the words of ``predict``."""
    kind, _, number = ("cuda" if has_cuda else "cpu", "", "") if device == "auto" else device.partition(":")
    if kind == "cpu":
        return {"gpus": 0}
    return {"gpus": 1, "devices": [int(number or 0)], "accelerator": kind}


def predict(model: Any, samples: list[dict[str, str]], where: dict[str, Any], progress: TextIO) -> list[float]:  # noqa: ANN401
    """Return one score per sample; samples of like length share a batch, which saves padding."""
    order = sorted(range(len(samples)), key=lambda number: len(samples[number]["src"]))
    scores = [0.0] * len(samples)
    for start in range(0, len(order), ROUND):
        numbers = order[start : start + ROUND]
        found = model.predict(
            [samples[number] for number in numbers],
            batch_size=BATCH,
            num_workers=0,
            progress_bar=False,
            length_batching=False,
            **where,
        )
        for number, score in zip(numbers, found.scores):  # noqa: B905 - older Pythons lack strict=
            scores[number] = float(score)
        progress.write(f"{start + len(numbers)}\n")
        progress.flush()
    return scores


if __name__ == "__main__":
    main(*sys.argv[1:])
