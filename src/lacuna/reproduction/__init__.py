"""Reproduce the paper: one experiment file gives memories, systems, tables and checked claims."""

from lacuna.reproduction.claims import CheckedClaim
from lacuna.reproduction.comparison import PARTS, Part
from lacuna.reproduction.experiment import Experiment, read_experiment
from lacuna.reproduction.pipeline import Reproduction, reproduce

__all__ = ["PARTS", "CheckedClaim", "Experiment", "Part", "Reproduction", "read_experiment", "reproduce"]
