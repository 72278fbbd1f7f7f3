"""Prune a memory: choose the entries to drop and write a smaller store. Needs no torch."""

from __future__ import annotations

from typing import Any

from lacuna.pruning.base import EntryTable, Group, Pruner, Pruning
from lacuna.pruning.baselines import AllKnown, Known, Random
from lacuna.pruning.cluster import Cluster
from lacuna.pruning.distill import Distill
from lacuna.pruning.merge import Merge
from lacuna.pruning.plac import Plac, Reverse
from lacuna.pruning.pruned_store import PruneReport, prune_store
from lacuna.strategies import make_strategy

__all__ = [
    "PRUNERS",
    "AllKnown",
    "Cluster",
    "Distill",
    "EntryTable",
    "Group",
    "Known",
    "Merge",
    "Plac",
    "PruneReport",
    "Pruner",
    "Pruning",
    "Random",
    "Reverse",
    "make_pruner",
    "prune_store",
]

PRUNERS: dict[str, type[Pruner]] = {
    pruner.name: pruner for pruner in (Plac, Random, Known, AllKnown, Cluster, Merge, Distill, Reverse)
}


def make_pruner(method: str, **settings: Any) -> Pruner:  # noqa: ANN401 - each method has its own
    """Make a pruner by the name of its method.

    :param settings: Fields of the pruner; the others keep their defaults.
    """
    return make_strategy(PRUNERS, "method", method, settings)
