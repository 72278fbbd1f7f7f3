"""Every choice of a training run, with its default written once. Knows nothing of how they are carried out."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from lacuna.errors import SettingError

TOKENIZATIONS = ("sentencepiece", "bpe")
VOCABULARIES = ("joint", "separate")


def _need(condition: bool, name: str, got: object, allowed: str) -> None:
    if not condition:
        raise SettingError(f"{name}: got {got}; allowed is {allowed}")


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of the Transformer.

    The encoder is deep and the decoder shallow, because only the decoder runs once per output token.

    :param vocabulary: Pieces of the joint vocabulary, or of each of the two separate ones.
    :param max_positions: The longest sentence, in pieces; longer training pairs are left out and counted.
    """

    encoder_layers: int = 6
    decoder_layers: int = 2
    dimension: int = 256
    feed_forward: int = 1024
    heads: int = 4
    vocabulary: int = 8000
    max_positions: int = 256

    def __post_init__(self) -> None:
        for name in ("encoder_layers", "decoder_layers", "dimension", "feed_forward", "heads", "max_positions"):
            _need(getattr(self, name) >= 1, name, getattr(self, name), "1 or more")
        _need(self.dimension % (2 * self.heads) == 0, "dimension", self.dimension, f"a multiple of {2 * self.heads}")
        _need(self.vocabulary >= 360, "vocabulary", self.vocabulary, "360 or more (bytes and ASCII take 350)")


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """How to train. Give ``hours`` or ``steps``; the decay of the learning rate is fitted to it.

    A run with ``steps`` is a function of its settings alone. With ``hours`` the learning rate follows the clock,
    so two such runs differ, although each goes on from its last checkpoint exactly as it stood.

    :param batch_tokens: Padded tokens of the longer side in one batch.
    :param lexical_weight: How much the encoder's own foretelling of the target words counts beside the loss proper.
    :param decay_share: The last part of the run, over which the learning rate falls to zero.
    :param average: How many of the last checkpoints are averaged into the final weights.
    :param tokenization: ``sentencepiece``, or ``bpe``: words by Moses or jieba, cut by subword-nmt.
    :param vocabularies: ``joint``, or ``separate``: one for each side, with embeddings of its own; only with ``bpe``.
    :param patience: Evaluations without a better dev perplexity before training stops early; 0 never stops.
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
    seed: int = 1

    def __post_init__(self) -> None:
        budget = f"hours {self.hours}, steps {self.steps}"
        _need((self.hours is None) != (self.steps is None), "budget", budget, "exactly one: --hours or --steps")
        _need(self.hours is None or self.hours > 0, "hours", self.hours, "more than 0")
        for name in ("steps", "batch_tokens", "evaluate_every", "save_every", "average", "dev_pairs"):
            value = getattr(self, name)
            _need(value is None or value >= 1, name, value, "1 or more")
        for name in ("learning_rate", "clip_norm"):
            _need(getattr(self, name) > 0, name, getattr(self, name), "more than 0")
        for name in ("warmup_steps", "patience", "weight_decay", "lexical_weight"):
            _need(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        for name in ("label_smoothing", "dropout"):
            _need(0 <= getattr(self, name) < 1, name, getattr(self, name), "0 or more and less than 1")
        _need(0 < self.decay_share <= 1, "decay_share", self.decay_share, "more than 0, at most 1")
        self._check_tokenization()

    def _check_tokenization(self) -> None:
        for name, allowed in (("tokenization", TOKENIZATIONS), ("vocabularies", VOCABULARIES)):
            _need(getattr(self, name) in allowed, name, repr(getattr(self, name)), " or ".join(allowed))
        together = self.tokenization == "bpe" or self.vocabularies == "joint"
        _need(together, "vocabularies", f"{self.vocabularies} with sentencepiece", "joint, or tokenization bpe")

    def as_json(self) -> dict[str, Any]:
        """Return what a manifest keeps."""
        return asdict(self)


def learning_share(step: int, finished: float, settings: TrainSettings) -> float:
    """Return the factor of the learning rates: linear warm-up, a plateau, and a linear fall to zero.

    :param step: Steps done so far.
    :param finished: The share of the budget that is used up, 0 to 1.
    """
    rising = min(1.0, (step + 1) / max(1, settings.warmup_steps))
    falling = min(1.0, max(0.0, 1.0 - finished) / settings.decay_share)
    return min(rising, falling)


def read_settings(path: Path | None, **given: object) -> TrainSettings:
    """Read settings from a JSON file (none of them is required) and put in those of ``given`` that are not None."""
    content: Any = {}
    if path is not None:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SettingError(f"{path}: cannot be read as JSON ({error})") from error
    if not isinstance(content, dict):
        raise SettingError(f"{path}: got {type(content).__name__}; a settings file is one JSON object")
    shape = Shape(**_known(content.pop("shape", {}), Shape, path))
    chosen = {name: value for name, value in given.items() if value is not None}
    return TrainSettings(**(_known(content, TrainSettings, path) | chosen), shape=shape)


def _known(content: dict[str, Any], kind: type[Shape] | type[TrainSettings], path: Path | None) -> dict[str, Any]:
    names = sorted(kind.__dataclass_fields__)
    for name in content:
        if name not in names:
            near = get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]}?" if near else f"allowed are {', '.join(names)}"
            raise SettingError(f"{path}: unknown setting {name!r}; {hint}")
    return content
