"""A memory that stops answering, at any moment: no error, and the translations say which of them had no memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from lacuna.combiners import Vanilla
from lacuna.datastore import build_store
from lacuna.decoding import BeamSettings
from lacuna.errors import UnavailableError
from lacuna.explanation.explainer import Explainer
from lacuna.index import VectorIndex, build_index
from lacuna.index.base import Neighborhood
from lacuna.memory import FolderMemory, Memory, open_memory
from lacuna.models.adapter import Model
from lacuna.records import Origin, SentencePair, Translation
from lacuna.translator import Translator
from lacuna.translator import translator as module
from lacuna.translator.calibration import Calibration
from plain_systems import open_plain
from unit.models.tiny_models import SOURCES, TARGETS

PAIRS = [SentencePair(s, t, Origin("tiny", str(n))) for n, (s, t) in enumerate(zip(SOURCES, TARGETS, strict=True))]
SHORT = BeamSettings(beam=2, max_new_tokens=4)
# A model with random weights loses placeholders, so that the second sentence is translated again.
TEXTS = [SOURCES[0], "wir lesen %s", SOURCES[2], SOURCES[3]]
CALIBRATION = Calibration((1.0, 0.5), (-5.0, 5.0), (0.1, 0.9), 8)
NEVER = 10_000


class Failing:
    """An index that does not answer one search, or none from a search on."""

    def __init__(self, index: VectorIndex, first: int, last: int = NEVER) -> None:
        self._index, self.kind, self.size = index, index.kind, index.size
        self.first, self.last = first, last
        self.searches = 0

    def search(self, queries: NDArray[np.float32], k: int) -> Neighborhood:
        self.searches += 1
        if self.first <= self.searches <= self.last:
            raise UnavailableError("the memory is away")
        return self._index.search(queries, k)


@pytest.fixture(scope="module")
def memory(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Memory:
    into: Path = tmp_path_factory.mktemp("stores") / "all"
    build_index(build_store(model, PAIRS, into))
    return open_memory(into)


def translator_of(model: Model, memory: Memory, first: int = NEVER, last: int = NEVER) -> tuple[Translator, Failing]:
    index = Failing(memory.index, first, last)
    parts = {"calibration": CALIBRATION, "fallback": True}
    failing = FolderMemory.of(memory.store, memory.name, index)
    translator = open_plain(model, [failing], Vanilla(k=2, knn_weight=0.9), SHORT, **parts)
    return translator, index


def had_memory(one: Translation) -> bool:
    return any(step.neighbors for step in one.steps)


@pytest.mark.parametrize("together", [1, 128])
@pytest.mark.parametrize("evidence", [False, True])
@pytest.mark.parametrize("once", [False, True])
def test_every_pass_falls_back_and_the_flag_is_true(
    model: Model, memory: Memory, monkeypatch: pytest.MonkeyPatch, together: int, evidence: bool, once: bool
) -> None:
    monkeypatch.setattr(module, "_RESTORED_AT_ONCE", together)
    plain = [one.text for one in open_plain(model, beam=SHORT).translate(TEXTS)]
    whole, index = translator_of(model, memory)
    with_memory = [one.text for one in whole.translate(TEXTS, evidence=evidence, batch_size=2)]
    assert with_memory != plain
    for first in range(1, index.searches + 1):
        translator, _ = translator_of(model, memory, first, first if once else NEVER)
        found = translator.translate(TEXTS, evidence=evidence, batch_size=2)
        expected = [
            alone if one.without_memory else own for one, alone, own in zip(found, plain, with_memory, strict=True)
        ]
        assert [one.text for one in found] == expected, f"search {first}"
        assert any(one.without_memory for one in found)
        if evidence:
            assert [had_memory(one) for one in found] == [not one.without_memory for one in found], f"search {first}"


def test_without_fallback_every_failure_is_an_error(model: Model, memory: Memory) -> None:
    whole, index = translator_of(model, memory)
    whole.translate(TEXTS, evidence=True, batch_size=2)
    for first in range(1, index.searches + 1):
        translator, _ = translator_of(model, memory, first, first)
        strict = replace(translator.system, fallback=False).open()
        with pytest.raises(UnavailableError):
            strict.translate(TEXTS, evidence=True, batch_size=2)


@pytest.mark.parametrize("once", [False, True])
def test_an_explanation_is_with_the_memory_or_without(model: Model, memory: Memory, once: bool) -> None:
    whole, index = translator_of(model, memory)
    Explainer(whole).explain(TEXTS)
    for first in range(1, index.searches + 1):
        translator, _ = translator_of(model, memory, first, first if once else NEVER)
        for one in Explainer(translator).explain(TEXTS):
            assert one.without_memory, f"search {first}"
            assert one.text == one.base_text
            assert one.confidence is None
            assert all(token.margin is None and not token.neighbors for token in one.tokens)


@pytest.mark.parametrize("once", [False, True])
def test_a_confidence_is_missing_while_its_memory_is_away(model: Model, memory: Memory, once: bool) -> None:
    whole, index = translator_of(model, memory)
    assert all(one.confidence is not None for one in whole.translate(TEXTS, confidence=True))
    for first in range(1, index.searches + 1):
        translator, _ = translator_of(model, memory, first, first if once else NEVER)
        for one in translator.translate(TEXTS, confidence=True):
            assert one.confidence is None or not one.without_memory
