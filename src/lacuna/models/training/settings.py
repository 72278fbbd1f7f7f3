"""Settings of training and fine-tuning, with their defaults and valid ranges.

Knows nothing of networks.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from lacuna.errors import SettingError

TOKENIZATIONS = ("sentencepiece", "bpe")
VOCABULARIES = ("joint", "separate")
PRECISIONS = ("float32", "bfloat16")

# LoRA adapters start at zero and are small: they need a much larger learning rate than the full weights.
_FULL_LEARNING_RATE = 3e-4
_LORA_LEARNING_RATE = 2e-3
_EPOCHS = 10.0
_ALPHA_PER_RANK = 2
_RANGES: dict[str, Callable[[float], bool]] = {
    "1 or more": lambda value: value >= 1,
    "0 or more": lambda value: value >= 0,
    "more than 0": lambda value: value > 0,
    "0 or more and less than 1": lambda value: 0 <= value < 1,
}


@dataclass(frozen=True, slots=True)
class Shape:
    """Size of the Transformer.

    The encoder is deep and the decoder shallow, because only the decoder runs once per output token.

    :param dimension: Width of the hidden states.
    :param feed_forward: Inner width of the feed-forward layers.
    :param vocabulary: Size of the joint vocabulary, or of each of two separate ones.
    :param max_positions: Maximum sentence length in tokens; longer training pairs are skipped and counted.
    """

    encoder_layers: int = 6
    decoder_layers: int = 2
    dimension: int = 256
    feed_forward: int = 1024
    heads: int = 4
    vocabulary: int = 8000
    max_positions: int = 256

    def __post_init__(self) -> None:
        _check_range(
            self, "1 or more", "encoder_layers", "decoder_layers", "dimension", "feed_forward", "heads", "max_positions"
        )
        _check(self.dimension % (2 * self.heads) == 0, "dimension", self.dimension, f"a multiple of {2 * self.heads}")
        _check(self.vocabulary >= 360, "vocabulary", self.vocabulary, "360 or more (bytes and ASCII take 350)")


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """Settings of training from scratch. Give either ``hours`` or ``steps``.

    With ``steps``, the result depends on the settings only. With ``hours``, the learning rate follows the clock, so
    two runs differ.

    :param hours: Time budget; only time spent in training steps counts.
    :param learning_rate: Peak learning rate of AdamW.
    :param weight_decay: Weight decay of matrices; biases and norms have none.
    :param warmup_steps: Steps of linear warm-up.
    :param decay_share: Final share of the run in which the learning rate decays linearly to zero.
    :param label_smoothing: Share of the target distribution that is spread evenly over the vocabulary.
    :param lexical_weight: Weight of the auxiliary loss by which encoder states predict target words.
    :param batch_tokens: Maximum number of padded tokens of the longer side in a batch.
    :param evaluate_every: Steps between two evaluations on dev.
    :param save_every: Steps between two checkpoints.
    :param average: Number of last evaluated weights that are averaged into the final ones.
    :param patience: Evaluations without a better dev perplexity before training stops early; 0 disables it.
    :param dev_pairs: Training pairs held out where no dev set is given.
    :param tokenization: ``sentencepiece``, or ``bpe``: Moses or jieba words, then subword-nmt.
    :param vocabularies: ``joint``, or ``separate`` for source and target; the latter needs ``bpe``.
    :param precision: Type of the matrix products of training steps: ``float32`` or ``bfloat16``. Weights, optimizer
        and evaluation are always in float32.
    :param seed: Seed of the weights, the order of the pairs and the vocabulary sample.
    """

    hours: float | None = None
    steps: int | None = None
    shape: Shape = field(default_factory=Shape)
    learning_rate: float = 8e-4
    weight_decay: float = 0.01
    warmup_steps: int = 200
    decay_share: float = 0.4
    label_smoothing: float = 0.1
    lexical_weight: float = 1.0
    dropout: float = 0.0
    clip_norm: float = 1.0
    batch_tokens: int = 2048
    evaluate_every: int = 500
    save_every: int = 250
    average: int = 4
    patience: int = 10
    dev_pairs: int = 2000
    tokenization: str = "sentencepiece"
    vocabularies: str = "joint"
    precision: str = "float32"
    seed: int = 1

    def __post_init__(self) -> None:
        budget = f"hours {self.hours}, steps {self.steps}"
        _check((self.hours is None) != (self.steps is None), "budget", budget, "exactly one: `hours` or `steps`")
        _check_range(self, "1 or more", "steps", "batch_tokens", "evaluate_every", "save_every", "average", "dev_pairs")
        _check_range(self, "more than 0", "hours", "learning_rate", "clip_norm")
        _check_range(self, "0 or more", "warmup_steps", "patience", "weight_decay", "lexical_weight")
        _check_range(self, "0 or more and less than 1", "label_smoothing", "dropout")
        _check(0 < self.decay_share <= 1, "decay_share", self.decay_share, "more than 0, at most 1")
        for name, allowed in (
            ("tokenization", TOKENIZATIONS),
            ("vocabularies", VOCABULARIES),
            ("precision", PRECISIONS),
        ):
            _check(getattr(self, name) in allowed, name, repr(getattr(self, name)), " or ".join(allowed))
        compatible = self.tokenization == "bpe" or self.vocabularies == "joint"
        _check(compatible, "vocabularies", f"{self.vocabularies} with sentencepiece", "joint, or tokenization bpe")

    def as_json(self) -> dict[str, Any]:
        """Return the settings as the model card stores them."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LoraSettings:
    """LoRA adapters (Hu et al., 2022): ``W x + alpha / rank * B (A x)``, where only A and B are trained.

    :param alpha: Scale of the adapters, divided by the rank; ``None`` is twice the rank.
    :param dropout: Dropout on the input of A.
    :param targets: Names of the linear layers that get an adapter, e.g. ``q_proj``; ``None`` selects the usual ones,
        see :mod:`~lacuna.models.training.lora`.
    """

    rank: int = 16
    alpha: int | None = None
    dropout: float = 0.0
    targets: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _check_range(self, "1 or more", "rank", "alpha")
        _check(0 <= self.dropout < 1, "lora dropout", self.dropout, "0 or more and less than 1")
        _check(self.targets is None or len(self.targets) > 0, "targets", "none", "one layer name or more")

    @property
    def effective_alpha(self) -> int:
        """``alpha``, or its default."""
        return _ALPHA_PER_RANK * self.rank if self.alpha is None else self.alpha


@dataclass(frozen=True, slots=True)
class FinetuneSettings:
    """Settings of fine-tuning. The run ends at the first limit it reaches; without any limit, after 10 epochs.

    Without ``hours``, the result depends on model, pairs and settings only (with the same number of CPU threads).

    :param lora: Train LoRA adapters instead of all weights.
    :param epochs: Limit: passes over the training pairs.
    :param steps: Limit: optimizer steps.
    :param hours: Limit: time spent in training steps; the learning rate then follows the clock.
    :param learning_rate: Peak learning rate of Adam; ``None`` is 0.0003, or 0.002 with LoRA.
    :param warmup_steps: Steps of linear warm-up, at most a tenth of the run; then the rate decays linearly to zero.
    :param batch_tokens: Maximum number of padded tokens of the longer side in a batch.
    :param label_smoothing: Share of the target distribution that is spread evenly over the vocabulary.
    :param dropout: Replaces the model's own dropout.
    :param evaluate_every: Steps between two evaluations; ``None`` chooses an interval with little overhead.
    :param patience: Evaluations without a better dev perplexity before the run stops early; 0 disables it.
    :param save_every: Steps between two checkpoints, besides those at evaluations.
    :param held_out: Maximum number of training pairs held out where no dev set is given.
    :param seed: Seed of the order of the pairs, dropout, adapters and held-out pairs.
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
        _check_range(self, "more than 0", "epochs", "hours", "learning_rate", "clip_norm")
        _check_range(self, "1 or more", "steps", "batch_tokens", "evaluate_every", "save_every", "held_out")
        _check_range(self, "0 or more", "warmup_steps", "patience", "seed")
        _check_range(self, "0 or more and less than 1", "label_smoothing", "dropout")

    @property
    def peak_learning_rate(self) -> float:
        """``learning_rate``, or its default."""
        if self.learning_rate is not None:
            return self.learning_rate
        return _FULL_LEARNING_RATE if self.lora is None else _LORA_LEARNING_RATE

    def step_limit(self, epoch_steps: int) -> int | None:
        """Return the maximum number of steps, given the steps of an epoch; ``None`` if only ``hours`` limits it."""
        epochs = _EPOCHS if (self.epochs, self.steps, self.hours) == (None, None, None) else self.epochs
        limits = [self.steps] if self.steps else []
        if epochs is not None:
            limits.append(max(1, round(epochs * epoch_steps)))
        return min(limits, default=None)

    def as_json(self) -> dict[str, Any]:
        """Return the settings as the model card stores them, with defaults filled in."""
        lora = self.lora and asdict(self.lora) | {"alpha": self.lora.effective_alpha}
        return asdict(self) | {"lora": lora, "learning_rate": self.peak_learning_rate}


def read_settings(path: Path | None, **given: object) -> TrainSettings:
    """Read training settings from a JSON file; values of ``given`` that are not None take precedence."""
    content: Any = {}
    if path is not None:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SettingError(f"{path}: cannot be read as JSON ({error})") from error
    own = _check_names(content, TrainSettings, path)
    shape = Shape(**_check_names(own.pop("shape", {}), Shape, path))
    chosen = {name: value for name, value in given.items() if value is not None}
    return TrainSettings(**(own | chosen), shape=shape)


def _check_names(content: object, kind: type[Shape] | type[TrainSettings], path: Path | None) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise SettingError(f"{path}: got {type(content).__name__}; settings are a JSON object of names and values")
    names = sorted(kind.__dataclass_fields__)
    for name in content:
        if name not in names:
            near = get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]}?" if near else f"allowed are {', '.join(names)}"
            raise SettingError(f"{path}: unknown setting {name!r}; {hint}")
    return content


def _check(condition: bool, name: str, got: object, allowed: str) -> None:
    if not condition:
        raise SettingError(f"{name}: got {got}; allowed is {allowed}")


def _check_range(settings: object, allowed: str, *names: str) -> None:
    for name in names:
        value = getattr(settings, name)
        _check(value is None or _RANGES[allowed](value), name, value, allowed)
