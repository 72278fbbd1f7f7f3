"""Strategies by name."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from lacuna.errors import SettingError
from lacuna.strategies import make_strategy


@dataclass(frozen=True)
class Walk:
    speed: int = 5
    shoes: str = "boots"


@dataclass(frozen=True)
class Fly:
    pass


FAMILY: dict[str, type] = {"walk": Walk, "fly": Fly}


def test_settings_that_are_not_given_have_their_defaults() -> None:
    assert make_strategy(FAMILY, "means", "walk", {"speed": 3}) == Walk(3, "boots")
    assert make_strategy(FAMILY, "means", "fly", {}) == Fly()


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("swim", {}, "means: got 'swim'; allowed: walk, fly"),
        ("walk", {"depth": 2}, "depth: got 2, but walk takes only speed, shoes; leave it out"),
        ("fly", {"speed": 2}, "speed: got 2, but fly takes no settings; leave it out"),
    ],
)
def test_what_is_refused(name: str, settings: dict[str, int], message: str) -> None:
    with pytest.raises(SettingError) as refused:
        make_strategy(FAMILY, "means", name, settings)
    assert str(refused.value) == message
