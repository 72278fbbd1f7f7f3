"""Questions that need a model, memories and scores together: what may be dropped, and how methods compare."""

from lacuna.analysis.choosing import PruningChoice, choose_pruning
from lacuna.analysis.comparing import Compared, Experiment, System, compare_pruners, compare_systems

__all__ = ["Compared", "Experiment", "PruningChoice", "System", "choose_pruning", "compare_pruners", "compare_systems"]
