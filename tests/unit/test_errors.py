"""A missing optional package becomes an error that names its extra; a missing module of ours stays what it is."""

from __future__ import annotations

import pytest

from lacuna.errors import MissingExtra, needs_extra


def test_a_missing_package_names_its_extra() -> None:
    with pytest.raises(MissingExtra) as refused, needs_extra("reports", "drawing figures"):
        import no_such_package  # noqa: F401
    assert str(refused.value) == 'drawing figures needs the package no_such_package; pip install "lacuna-mt[reports]"'


def test_a_missing_module_of_lacuna_is_not_an_extra() -> None:
    with pytest.raises(ModuleNotFoundError) as missing, needs_extra("reports", "drawing figures"):
        import lacuna.no_such_module  # noqa: F401
    assert not isinstance(missing.value, MissingExtra)
