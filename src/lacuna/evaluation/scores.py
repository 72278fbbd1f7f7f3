"""What an evaluation says: scores with their signatures, and how a system compares with the first one.

Holds results; knows neither how they are computed nor how they are shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LEVEL = 0.05  # below this p a difference is called significant, as in the papers we compare with


@dataclass(frozen=True, slots=True)
class Score:
    """A number and the signature without which it cannot be compared with another.

    :param metric: ``BLEU``, ``chrF2`` or ``TER``, as sacreBLEU writes it; or ``COMET``.
    :param value: The corpus score, 0 to 100 (TER may go beyond); COMET's scale is its model's, mostly about 0 to 1.
    :param signature: sacreBLEU's: tokenizer, smoothing, case, version; or COMET's model and version.
    :param digits: Decimals worth showing.
    """

    metric: str
    value: float
    signature: str
    digits: int = 2

    def __str__(self) -> str:
        return f"{self.metric}|{self.signature} = {self.value:.{self.digits}f}"


@dataclass(frozen=True, slots=True)
class SystemScore:
    """The scores of one system, and its comparison with the first system (None for that one itself).

    :param name: The system as the caller named it.
    :param bleu: Higher is better.
    :param chrf: Higher is better.
    :param ter: Lower is better.
    :param p_value: Two-sided: small if the BLEU differs from the first system's by more than chance.
    :param p_decline: One-sided: small if the BLEU is below the first system's by more than chance.
    :param better: Whether BLEU is above the first system's and ``p_value`` below ``LEVEL``.
    :param comet: The mean over segments, higher is better; None where it was not asked for, as all of COMET's.
    :param comet_model: The name of COMET's model.
    :param comet_p_value: As ``p_value``, of COMET.
    :param comet_p_decline: As ``p_decline``, of COMET.
    """

    name: str
    bleu: Score
    chrf: Score
    ter: Score
    p_value: float | None = None
    p_decline: float | None = None
    better: bool | None = None
    comet: Score | None = None
    comet_model: str | None = None
    comet_p_value: float | None = None
    comet_p_decline: float | None = None

    @property
    def declined(self) -> bool | None:
        """Whether BLEU is significantly below the first system's, the asterisk of the PLAC paper's tables."""
        return None if self.p_decline is None else self.p_decline < LEVEL

    @property
    def signature(self) -> str:
        """The signature of BLEU, the score that papers report."""
        return self.bleu.signature

    def as_json(self) -> dict[str, Any]:
        """Return what ``lacuna evaluate --json`` writes of a system; keys of COMET only where it was asked for."""
        scores = {"bleu": self.bleu, "chrf": self.chrf, "ter": self.ter}
        if self.comet is not None:
            scores["comet"] = self.comet
        content: dict[str, Any] = {
            "name": self.name,
            **{name: score.value for name, score in scores.items()},
            "signature": self.signature,
            "signatures": {name: score.signature for name, score in scores.items()},
            "p_value": self.p_value,
            "p_decline": self.p_decline,
            "better": self.better,
            "declined": self.declined,
        }
        if self.comet is not None:
            content["comet_model"] = self.comet_model
            content["comet_p_value"] = self.comet_p_value
            content["comet_p_decline"] = self.comet_p_decline
        return content
