"""Beam search over any scorer of next tokens. Knows nothing of text, models and neighbors."""

from lacuna.decoding.backpointers import Hypothesis
from lacuna.decoding.beam import BeamSettings
from lacuna.decoding.constraints import Constraints, Form, SentenceConstraints, TokenBoundaries
from lacuna.decoding.scorer import Scorer
from lacuna.decoding.search import BatchCapacity, plan_batches, search
from lacuna.decoding.worker_pool import decode_all, decode_blocks, pool_for

__all__ = [
    "BatchCapacity",
    "BeamSettings",
    "Constraints",
    "Form",
    "Hypothesis",
    "Scorer",
    "SentenceConstraints",
    "TokenBoundaries",
    "decode_all",
    "decode_blocks",
    "plan_batches",
    "pool_for",
    "search",
]
