"""Beam search over anything that scores next tokens. Knows nothing of text, of models or of neighbors."""

from lacuna.decoding.batches import decode_all, plan_batches
from lacuna.decoding.beam import BeamSettings
from lacuna.decoding.crew import Crew, muster
from lacuna.decoding.hypotheses import Hypothesis
from lacuna.decoding.scorer import Scorer
from lacuna.decoding.searching import search

__all__ = ["BeamSettings", "Crew", "Hypothesis", "Scorer", "decode_all", "muster", "plan_batches", "search"]
