"""Pruning: choosing the entries a memory can do without, and writing a smaller store. Needs no torch."""

from lacuna.pruning.base import EntryTable, Group, Pruner, Pruning
from lacuna.pruning.baselines import AllKnown, Known, Random
from lacuna.pruning.cluster import Cluster
from lacuna.pruning.merge import Merge
from lacuna.pruning.methods import PRUNERS, make_pruner
from lacuna.pruning.plac import Plac, Reverse
from lacuna.pruning.pruned_store import PruneReport, prune_store

__all__ = [
    "PRUNERS",
    "AllKnown",
    "Cluster",
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
