"""Strategies: frozen dataclasses whose fields are their settings, found by name in one dict per family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from lacuna.errors import SettingError

Strategy = TypeVar("Strategy")


def make_strategy(
    family: Mapping[str, type[Strategy]], choice: str, name: str, settings: Mapping[str, Any]
) -> Strategy:
    """Make the strategy of this name; settings that are not given have their defaults.

    :param choice: The parameter that names the strategy, for the error message.
    :raises SettingError: There is no such strategy, or it does not have one of the settings.
    """
    if name not in family:
        raise SettingError(f"{choice}: got {name!r}; allowed: {', '.join(family)}")
    allowed = [field.name for field in fields(family[name])]  # type: ignore[arg-type]
    for setting, value in settings.items():
        if setting not in allowed:
            takes = f"only {', '.join(allowed)}" if allowed else "no settings"
            raise SettingError(f"{setting}: got {value}, but {name} takes {takes}; leave it out")
    return family[name](**settings)
