"""Prune a memory: choose the entries to drop and write a smaller store. Needs no torch."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from lacuna.errors import SettingError
from lacuna.pruning.base import EntryTable, Group, Pruner, Pruning
from lacuna.pruning.baselines import AllKnown, Known, Random
from lacuna.pruning.cluster import Cluster
from lacuna.pruning.merge import Merge
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

PRUNERS: dict[str, type[Pruner]] = {
    pruner.name: pruner for pruner in (Plac, Random, Known, AllKnown, Cluster, Merge, Reverse)
}


def make_pruner(method: str, **settings: Any) -> Pruner:  # noqa: ANN401 - each method has its own
    """Make a pruner by the name of its method.

    :param settings: Fields of the pruner; the others keep their defaults.
    """
    if method not in PRUNERS:
        raise SettingError(f"method: got {method!r}; allowed: {', '.join(PRUNERS)}")
    allowed = [field.name for field in fields(PRUNERS[method])]
    for name in settings:
        if name not in allowed:
            takes = f"only {' and '.join(allowed)}" if allowed else "no settings"
            raise SettingError(f"{name}: got {settings[name]}, but {method} takes {takes}; leave it out")
    return PRUNERS[method](**settings)
