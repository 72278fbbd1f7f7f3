"""Every choice of a fine-tuning run, with its default written once. Knows nothing of how they are carried out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lacuna.errors import SettingError

# Adapters start at nothing and are few: they bear, and need, a far larger rate than the weights themselves.
_FULL_RATE = 3e-4
_LORA_RATE = 2e-3
_EPOCHS = 10.0
_ALPHA_PER_RANK = 2


def _need(holds: bool, name: str, got: object, allowed: str) -> None:
    if not holds:
        raise SettingError(f"{name}: got {got}; allowed is {allowed}")


@dataclass(frozen=True, slots=True)
class LoraSettings:
    """Adapters of low rank (Hu et al., 2022): ``W x + alpha / rank * B (A x)``, of which only A and B are trained.

    :param rank: Rows of A.
    :param alpha: What the adapters' sum is scaled with, over the rank; without it, twice the rank.
    :param dropout: Of what enters A.
    :param targets: Names of the linear layers that get an adapter, as ``q_proj``; without it, those of the model that
        :mod:`~lacuna.models.finetuning.lora` lists.
    """

    rank: int = 16
    alpha: int | None = None
    dropout: float = 0.0
    targets: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _need(self.rank >= 1, "rank", self.rank, "1 or more")
        _need(self.alpha is None or self.alpha >= 1, "alpha", self.alpha, "1 or more")
        _need(0 <= self.dropout < 1, "lora dropout", self.dropout, "0 or more and less than 1")
        _need(self.targets is None or len(self.targets) > 0, "targets", "none", "one layer name or more")

    @property
    def strength(self) -> int:
        """The alpha that is used."""
        return _ALPHA_PER_RANK * self.rank if self.alpha is None else self.alpha


@dataclass(frozen=True, slots=True)
class FinetuneSettings:
    """How to fine-tune. The first limit that is reached ends the run; without any it is 10 epochs.

    A run without ``hours`` is a function of model, pairs and settings alone (on the same number of CPU threads).

    :param lora: Train adapters instead of all weights.
    :param epochs: Limit: times that every pair is seen.
    :param steps: Limit: steps of the optimizer.
    :param hours: Limit: time spent in steps; the learning rate then follows the clock.
    :param learning_rate: Adam's, at its highest; without it, one that suits ``lora`` or its absence.
    :param warmup_steps: Steps in which the rate rises; a tenth of the run if that is less. Then it falls to zero.
    :param batch_tokens: Padded tokens of the longer side in one batch.
    :param dropout: Instead of the model's own.
    :param evaluate_every: Steps between two looks at dev; without it, so that looking costs little time.
    :param patience: Evaluations without a better dev perplexity before the run ends early; 0 never ends it.
    :param save_every: Steps between two saved states, beside those saved at evaluations.
    :param held_out: At most so many training pairs serve as dev where no dev pairs are given.
    """

    lora: LoraSettings | None = None
    epochs: float | None = None
    steps: int | None = None
    hours: float | None = None
    learning_rate: float | None = None
    warmup_steps: int = 100
    batch_tokens: int = 2048
    label_smoothing: float = 0.1
    dropout: float | None = None
    clip_norm: float = 1.0
    evaluate_every: int | None = None
    patience: int = 5
    save_every: int = 250
    held_out: int = 2000
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("epochs", "hours", "learning_rate", "clip_norm"):
            value = getattr(self, name)
            _need(value is None or value > 0, name, value, "more than 0")
        for name in ("steps", "batch_tokens", "evaluate_every", "save_every", "held_out"):
            value = getattr(self, name)
            _need(value is None or value >= 1, name, value, "1 or more")
        for name in ("warmup_steps", "patience", "seed"):
            _need(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        for name in ("label_smoothing", "dropout"):
            _need(0 <= (getattr(self, name) or 0) < 1, name, getattr(self, name), "0 or more and less than 1")

    @property
    def rate(self) -> float:
        """The learning rate that is used."""
        if self.learning_rate is not None:
            return self.learning_rate
        return _FULL_RATE if self.lora is None else _LORA_RATE

    def step_limit(self, epoch_steps: int) -> int | None:
        """Return the most steps, for epochs of so many; ``None`` where only the clock is a limit."""
        epochs = _EPOCHS if (self.epochs, self.steps, self.hours) == (None, None, None) else self.epochs
        limits = [self.steps] if self.steps else []
        if epochs is not None:
            limits.append(max(1, round(epochs * epoch_steps)))
        return min(limits, default=None)

    def as_json(self) -> dict[str, Any]:
        """Return what the card keeps: also the values that were not given."""
        lora = self.lora and asdict(self.lora) | {"alpha": self.lora.strength}
        return asdict(self) | {"lora": lora, "learning_rate": self.rate}
