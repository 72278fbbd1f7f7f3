"""The direction of a store: a multilingual model must be loaded for the direction that the store was built for."""

from __future__ import annotations

from pathlib import Path

import pytest

from lacuna.combiners import Vanilla
from lacuna.datastore import build_store
from lacuna.errors import StoreError
from lacuna.index import build_index
from lacuna.memory import open_memory
from lacuna.models import load_model
from lacuna.records import Languages
from made_up import make_pairs
from plain_systems import open_plain
from unit.datastore.numpy_model import NumpyModel, pairs_of
from unit.models.tiny_models import DE_EN, Zoo

DE_FR = Languages("de", "fr")
PAIRS = pairs_of(("das kleine haus", "the small house"), ("der hund schläft", "the dog sleeps"))


@pytest.mark.parametrize("kind", ["m2m100", "nllb", "mbart", "mbart50"])
def test_a_store_of_another_direction_is_refused(kind: str, zoo: Zoo, tmp_path: Path) -> None:
    store = build_store(load_model(zoo.folder(kind), languages=DE_EN, device="cpu"), PAIRS, tmp_path / "store")
    build_index(store)
    other = load_model(zoo.folder(kind), languages=DE_FR, device="cpu")
    assert other.fingerprint == store.manifest.model.fingerprint
    with pytest.raises(StoreError, match=r"built for the direction de-en, but .* was loaded for de-fr; load it for"):
        store.check_model(other)
    with pytest.raises(StoreError, match="built for the direction de-en"):
        open_plain(other, [open_memory(store.path)], Vanilla(k=1))


def test_the_same_direction_in_another_spelling_is_accepted(zoo: Zoo, tmp_path: Path) -> None:
    folder = zoo.folder("nllb")
    store = build_store(load_model(folder, languages=DE_EN, device="cpu"), PAIRS, tmp_path / "store")
    store.check_model(load_model(folder, languages=Languages("deu_Latn", "eng_Latn"), device="cpu"))


def test_without_a_recorded_direction_every_direction_is_accepted(tmp_path: Path) -> None:
    store = build_store(NumpyModel(languages=None), make_pairs(5), tmp_path / "store")
    store.check_model(NumpyModel(languages=DE_FR))


def test_a_model_without_direction_is_accepted(tmp_path: Path) -> None:
    """Only a bilingual model can be loaded without direction, and its fingerprint decides."""
    store = build_store(NumpyModel(languages=DE_EN), make_pairs(5), tmp_path / "store")
    store.check_model(NumpyModel(languages=None))
