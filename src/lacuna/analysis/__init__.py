"""Questions that need a model, memories and scores together: what may be dropped, and how methods compare."""

from lacuna.analysis.choosing import PruningChoice, choose_pruning
from lacuna.analysis.comparing import Compared, Experiment, compare_pruners

__all__ = ["Compared", "Experiment", "PruningChoice", "choose_pruning", "compare_pruners"]
