"""Questions that need a model, memories and scores together: what may be dropped, where to search, what is known."""

from lacuna.analysis.pruning_choice import PruningChoice, choose_pruning

__all__ = ["PruningChoice", "choose_pruning"]
