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

    :param metric: ``BLEU``, ``chrF2`` or ``TER``, as sacreBLEU writes it.
    :param value: The corpus score, 0 to 100 (TER may go beyond).
    :param signature: sacreBLEU's: tokenizer, smoothing, case, version.
    """

    metric: str
    value: float
    signature: str

    def __str__(self) -> str:
        return f"{self.metric}|{self.signature} = {self.value:.2f}"


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
    """

    name: str
    bleu: Score
    chrf: Score
    ter: Score
    p_value: float | None = None
    p_decline: float | None = None
    better: bool | None = None

    @property
    def declined(self) -> bool | None:
        """Whether BLEU is significantly below the first system's, the asterisk of the PLAC paper's tables."""
        return None if self.p_decline is None else self.p_decline < LEVEL

    @property
    def signature(self) -> str:
        """The signature of BLEU, the score that papers report."""
        return self.bleu.signature

    def as_json(self) -> dict[str, Any]:
        """Return what ``lacuna evaluate --json`` writes of a system."""
        return {
            "name": self.name,
            "bleu": self.bleu.value,
            "chrf": self.chrf.value,
            "ter": self.ter.value,
            "signature": self.signature,
            "signatures": {"bleu": self.bleu.signature, "chrf": self.chrf.signature, "ter": self.ter.signature},
            "p_value": self.p_value,
            "p_decline": self.p_decline,
            "better": self.better,
            "declined": self.declined,
        }
