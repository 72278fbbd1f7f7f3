"""Analyses that combine models, memories and scores: pruning choice, knowledge, overviews, and their tables."""

from lacuna.analysis.pruning_choice import PruningChoice, choose_pruning

__all__ = ["PruningChoice", "choose_pruning"]
