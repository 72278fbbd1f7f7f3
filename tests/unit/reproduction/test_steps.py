"""Steps: done once, found again, done again only when what they are made of changes; and what is left of a kill."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.reproduction.step_cache import Workshop, key_of

JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), st.lists, max_leaves=5)


class KilledError(Exception):
    """Stands for a kill."""


def write(text: str, log: list[str]) -> object:
    def work(folder: Path) -> None:
        log.append(text)
        (folder / "result").write_text(text)

    return work


def chain(folder: Path, first: int, second: int) -> list[str]:
    """Two steps, of which the second is made of the first; return what was done."""
    log: list[str] = []
    workshop = Workshop(folder)
    one = workshop.make("one", {"number": first}, write(f"one {first}", log))  # type: ignore[arg-type]
    two = workshop.make("two", {"one": one.key, "number": second}, write(f"two {second}", log))  # type: ignore[arg-type]
    assert (one.folder / "result").read_text() == f"one {first}"
    assert (two.folder / "result").read_text() == f"two {second}"
    assert workshop.made == [line.split()[0] for line in log]
    return log


def test_a_changed_setting_repeats_only_what_depends_on_it(tmp_path: Path) -> None:
    assert chain(tmp_path, 1, 1) == ["one 1", "two 1"]
    assert chain(tmp_path, 1, 1) == []
    assert chain(tmp_path, 1, 2) == ["two 2"]
    assert chain(tmp_path, 2, 2) == ["one 2", "two 2"]
    assert chain(tmp_path, 1, 1) == []  # what was made with the old settings is still there


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_step_that_was_broken_off_is_done_again(tmp_path: Path, goes_on: bool) -> None:
    def breaks(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise KilledError

    with pytest.raises(KilledError):
        Workshop(tmp_path).make("step", {}, breaks, goes_on=goes_on)
    seen: list[bool] = []
    step = Workshop(tmp_path).make("step", {}, lambda folder: seen.append((folder / "half").exists()), goes_on=goes_on)
    assert seen == [goes_on]
    Workshop(tmp_path).make("step", {}, breaks, goes_on=goes_on)  # done now, so not called
    assert step.seconds >= 0


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=3), st.dictionaries(st.text(max_size=3), JSON, max_size=3))
def test_keys_are_equal_where_inputs_are(one: dict[str, object], other: dict[str, object]) -> None:
    turned = dict(reversed(one.items()))
    assert key_of("step", one) == key_of("step", turned)
    # 1 and True are equal to Python but not in JSON
    assert (key_of("step", one) == key_of("step", other)) == (repr(sorted(one.items())) == repr(sorted(other.items())))
    assert key_of("step", one) != key_of("other", one)
