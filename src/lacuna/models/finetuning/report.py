"""How a fine-tuning run ended: what is said to the user, and what the card in the model's folder keeps of it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

CARD = "lacuna.json"


@dataclass(frozen=True, slots=True)
class FinetuneReport:
    """How a run ended.

    :param into: The folder of the new model.
    :param perplexity_before: On dev, of the model as it came.
    :param perplexity_after: On dev, of the model as it is saved.
    :param improved: Whether any weights were better on dev; otherwise the original ones were saved.
    :param best_step: The step whose weights were saved; 0 for the original ones.
    :param stopped: Why the run ended.
    :param trained_parameters: Numbers that were trained.
    :param parameters: Numbers of the model that could be, adapters not counted.
    :param pairs: Training pairs, without those held out and those too long.
    :param held_out: How many of the corpus' pairs served as dev.
    :param too_long: Pairs of corpus and dev that the model has no room for.
    :param finished_before: Whether there was nothing left to do: the model was there, made by the same command.
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
        """Return the report for machines."""
        return asdict(self) | {"into": str(self.into)}


def read_runs(place: str | Path) -> list[dict[str, Any]]:
    """Return the runs that a model's card tells of, oldest first; none where there is no card that can be read."""
    try:
        runs = json.loads((Path(place) / CARD).read_text(encoding="utf-8"))["runs"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return runs if isinstance(runs, list) else []


def finished_run(into: Path) -> dict[str, Any] | None:
    """Return what the card in a folder tells of the fine-tuning that made the model, if that is how it was made."""
    runs = read_runs(into)
    return runs[-1] if runs and "plan" in runs[-1] else None


def report_of(run: dict[str, Any], into: Path) -> FinetuneReport:
    """Return the report of a run that was finished before."""
    return replace(FinetuneReport(into=into, **run["report"]), finished_before=True)
