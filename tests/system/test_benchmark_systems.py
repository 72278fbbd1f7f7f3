"""The systems of the speed benchmark give comparable translations: all get the same text, and all are restored."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from lacuna.corpora.placeholders import same_placeholders
from lacuna.evaluation import evaluate_systems
from lacuna.models import Model

FOLDER = Path(__file__).parents[2] / "benchmarks"
TEXTS = [
    "Die Datei %s wurde gespeichert.",
    "Klicken Sie auf {name}, um das Fenster zu schließen.",
    "Wir haben gestern lange über das Wetter gesprochen.",
    "%d Dateien wurden in %s kopiert.",
    "Der Benutzer {user} hat sich angemeldet.",
    "Der Hund schläft.",
]


@pytest.fixture(scope="module")
def systems() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)  # also of the process of CTranslate2
        yield importlib.import_module("systems")


def test_transformers_translates_what_lacuna_translates(systems: ModuleType, bundled: Model) -> None:
    ours, theirs = (
        system.run(TEXTS, 32)[0] for system in (systems.of_lacuna("ours", bundled), systems.of_transformers(bundled))
    )
    assert all(same_placeholders(source, text) for source, text in zip(TEXTS, theirs, strict=True))
    assert theirs == ours


def test_ctranslate2_scores_as_lacuna_does(systems: ModuleType, bundled: Model, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    ours = systems.of_lacuna("ours", bundled).run(TEXTS, 32)[0]
    theirs = systems.of_ctranslate2(systems.BUNDLED, bundled, "float32", tmp_path / "ct2", 1, 1).run(TEXTS, 32)[0]
    assert all(same_placeholders(source, text) for source, text in zip(TEXTS, theirs, strict=True))
    [score] = evaluate_systems(ours, {"theirs": theirs})
    assert score.bleu.value > 80


def test_what_can_be_restored_is_restored(systems: ModuleType, bundled: Model) -> None:
    [masked] = [systems.mask("Die Dateien %s und {name} sind neu.")]
    first, second = masked.stand_ins
    assert systems.restored(masked, f"The files {first} and {second} are new.") == "The files %s and {name} are new."
    assert systems.restored(masked, f"The file {second} is new.") == "The file {name} is new."
