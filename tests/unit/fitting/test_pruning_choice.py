"""Choosing a ratio on dev: its shortcut through retrievals against stores that were really pruned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lacuna.combiners import Vanilla
from lacuna.errors import SettingError
from lacuna.fitting import DevSet, choose_pruning, collect_retrievals
from lacuna.fitting.pruning_choice import _retrieve, _without
from lacuna.fitting.vanilla import gold_log_p
from lacuna.memory import Memory, open_memory
from lacuna.models import Model
from lacuna.progress import SILENT
from lacuna.pruning import Plac, prune_store
from lacuna.pruning.pruned_store import StoreEntries
from lacuna.records import SentencePair


def most(memory: Memory, min_margin: int) -> float:
    table = StoreEntries(memory.store, SILENT)
    return float(np.count_nonzero(table.known & (table.margin >= min_margin)) / memory.store.entries)


def test_taking_neighbors_out_equals_searching_the_pruned_store(
    bundled: Model, memory: Memory, pairs: list[SentencePair], tmp_path: Path
) -> None:
    ratio = most(memory, 0) / 2
    assert ratio > 0
    prune_store(memory.store, Plac(0), tmp_path / "small", ratio=ratio, seed=3)
    combiner = Vanilla(k=2, knn_weight=0.6, temperature=5.0)
    retrieved, entries, _ = _retrieve(bundled, memory, DevSet(pairs[:5]), SILENT)
    keep = Plac(0).prune(StoreEntries(memory.store, SILENT), ratio=ratio, seed=3).keep
    shortcut = gold_log_p(_without(retrieved, keep[entries] & (entries >= 0), 2), combiner)
    small = open_memory(tmp_path / "small")
    real = gold_log_p(collect_retrievals(bundled, [small], DevSet(pairs[:5]), 2), combiner)
    np.testing.assert_allclose(shortcut, real, rtol=1e-4, atol=1e-5)


def test_the_choice_is_the_largest_ratio_that_was_not_significantly_worse(
    bundled: Model, memory: Memory, pairs: list[SentencePair]
) -> None:
    limit = most(memory, 1)
    ratios = [limit * share for share in (0.25, 0.5, 1.0)]
    choice = choose_pruning(bundled, memory, pairs[:6], ratios=[*ratios, 0.999], min_margins=[0, 1])
    tried = [trial for trial in choice.trials if trial.bleu is not None]
    assert 0.999 not in [trial.ratio for trial in choice.trials]  # cannot be reached
    fine = [trial.ratio for trial in tried if trial.p_bleu is not None and trial.p_bleu >= 0.05]
    assert choice.ratio == max(fine, default=0.0)
    assert (choice.pruner is None) == (not fine)
    again = choose_pruning(bundled, memory, pairs[:6], ratios=[*ratios, 0.999], min_margins=[0, 1])
    assert again == choice


def test_no_dev_is_refused(bundled: Model, memory: Memory) -> None:
    with pytest.raises(SettingError, match="dev: no sentence pair"):
        choose_pruning(bundled, memory, [])
