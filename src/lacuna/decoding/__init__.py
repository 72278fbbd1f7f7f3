"""Beam search over anything that scores next tokens. Knows nothing of text, of models or of neighbors."""

from lacuna.decoding.batches import Crew, decode_all, muster, plan_batches
from lacuna.decoding.beam import BeamSettings
from lacuna.decoding.hypotheses import Hypothesis
from lacuna.decoding.scorer import Scorer
from lacuna.decoding.search import search

__all__ = ["BeamSettings", "Crew", "Hypothesis", "Scorer", "decode_all", "muster", "plan_batches", "search"]
