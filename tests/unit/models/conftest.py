"""Fixtures: the tiny models of every supported kind."""

from __future__ import annotations

import pytest

from unit.models.tiny_models import KINDS


@pytest.fixture(params=sorted(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)
