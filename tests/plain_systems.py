"""Translators for tests of kNN-MT as it is defined, without what a domain adds to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lacuna.combiners import Combiner, Vanilla
from lacuna.decoding import BeamSettings
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.translator import System, Translator


def open_plain(
    model: Model,
    memories: Sequence[Memory] = (),
    combiner: Combiner | None = None,
    beam: BeamSettings | None = None,
    **parts: Any,
) -> Translator:
    """Open a system with neither exact contexts nor the end guard."""
    parts = {"exact_contexts": False, "guard_ends": False, **parts}
    return System(model, memories, combiner or Vanilla(), beam or BeamSettings(), **parts).open()
