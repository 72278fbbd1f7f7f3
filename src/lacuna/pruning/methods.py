"""All pruners by name. Knows only how to make one from its settings."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from lacuna.errors import SettingError
from lacuna.pruning.base import Pruner
from lacuna.pruning.baselines import AllKnown, Known, Random
from lacuna.pruning.cluster import Cluster
from lacuna.pruning.merge import Merge
from lacuna.pruning.plac import Plac, Reverse

PRUNERS: dict[str, type[Pruner]] = {
    pruner.name: pruner for pruner in (Plac, Random, Known, AllKnown, Cluster, Merge, Reverse)
}


def make_pruner(method: str, **settings: Any) -> Pruner:  # noqa: ANN401 - each method has its own
    """Make the pruner of this name; settings not given are the method's own."""
    if method not in PRUNERS:
        raise SettingError(f"method: got {method!r}; allowed: {', '.join(PRUNERS)}")
    allowed = [field.name for field in fields(PRUNERS[method])]
    for name in settings:
        if name not in allowed:
            takes = f"only {' and '.join(allowed)}" if allowed else "no settings"
            raise SettingError(f"{name}: got {settings[name]}, but {method} takes {takes}; leave it out")
    return PRUNERS[method](**settings)
