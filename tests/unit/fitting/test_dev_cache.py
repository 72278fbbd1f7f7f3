"""The cache of dev passes: what is found, what is computed again, and that results do not depend on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from lacuna.fitting import DevCache, DevSet
from lacuna.fitting import dev_pass as dev_pass_module
from lacuna.fitting.dev_cache import MANIFEST, ModelBatch, cache_folder, pass_inputs
from lacuna.models import Model, load_model
from lacuna.records import Languages, Origin, SentencePair
from made_up import make_pairs
from unit.fitting.test_dev_pass import count_passes
from unit.models.tiny_models import Zoo

DEV = make_pairs(12, seed=2)
OUTPUTS = ("keys", "predictions", "log_p_gold", "entropy")


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev_pass_module, "WINDOW", 5)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    return count_passes(monkeypatch)


def run(model: Model, folder: Path | None, pairs: int = 12) -> list[ModelBatch]:
    cache = None if folder is None else DevCache(folder)
    return list(DevSet(DEV[:pairs], batch_size=3, cache=cache).teacher_force(model))


def assert_same(left: list[ModelBatch], right: list[ModelBatch]) -> None:
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        assert one.outputs.lengths == other.outputs.lengths
        assert torch.equal(one.sentences, other.sentences)
        assert torch.equal(one.gold, other.gold)
        for name in OUTPUTS:
            first, second = getattr(one.outputs, name), getattr(other.outputs, name)
            assert first.dtype == second.dtype
            assert first.numpy().tobytes() == second.numpy().tobytes()


def test_masking_of_placeholders_is_part_of_the_key(zoo: Zoo) -> None:
    masked, raw = (load_model(zoo.folder("marian"), device="cpu", mask_placeholders=yes) for yes in (True, False))
    pairs = [SentencePair("Wir sehen %d Hunde.", "We see %d dogs.", Origin("made up", "1"))]
    assert pass_inputs(masked, pairs, 3) != pass_inputs(raw, pairs, 3)
    assert pass_inputs(masked, DEV, 3) == pass_inputs(raw, DEV, 3)  # nothing to mask


def test_a_cached_pass_has_the_same_bytes_and_needs_no_model(model: Model, passes: list[int], tmp_path: Path) -> None:
    plain = run(model, None)
    count = len(passes)
    assert_same(run(model, tmp_path), plain)
    assert len(passes) == 2 * count
    assert_same(run(model, tmp_path), plain)
    assert len(passes) == 2 * count


def test_dev_sets_with_the_same_first_pairs_share_windows(model: Model, passes: list[int], tmp_path: Path) -> None:
    run(model, tmp_path, pairs=10)
    assert sum(passes) == 10
    assert_same(run(model, tmp_path), run(model, None))
    assert sum(passes) == 10 + 2 + 12


def test_another_model_direction_or_text_is_another_pass(zoo: Zoo) -> None:
    one = zoo.model("m2m100")
    other = load_model(zoo.folder("m2m100"), languages=Languages("en", "de"), device="cpu")
    assert one.fingerprint == other.fingerprint
    inputs = [
        pass_inputs(one, DEV, 3),
        pass_inputs(other, DEV, 3),
        pass_inputs(zoo.model("marian"), DEV, 3),
        pass_inputs(one, DEV[:-1], 3),
        pass_inputs(one, DEV[::-1], 3),
        pass_inputs(one, DEV, 4),
    ]
    assert len({str(some) for some in inputs}) == len(inputs)
    assert pass_inputs(one, DEV, 3) == inputs[0]


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [truncate, flip, Path.unlink])
@pytest.mark.parametrize("name", ["keys.npy", "lengths.npy", MANIFEST])
def test_a_damaged_pass_is_computed_again(
    name: str, damage: Callable[[Path], None], model: Model, passes: list[int], tmp_path: Path
) -> None:
    plain = run(model, None)  # not from the cache, which is memory-mapped
    run(model, tmp_path)
    count = len(passes) // 2
    passes.clear()
    damage(next(iter(sorted(tmp_path.iterdir()))) / name)
    assert_same(run(model, tmp_path), plain)
    assert 0 < len(passes) < count
    passes.clear()
    run(model, tmp_path)
    assert not passes


def test_old_passes_are_removed_first(model: Model, tmp_path: Path) -> None:
    run(model, tmp_path, pairs=10)
    older, newer = sorted(tmp_path.iterdir())
    os.utime(older / MANIFEST, (1, 1))
    size = sum(file.stat().st_size for file in newer.iterdir())
    DevSet(DEV[10:], batch_size=3, cache=DevCache(tmp_path, max_bytes=size)).teacher_force(model)
    assert not older.exists()
    assert newer.exists()
    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_that_cannot_be_written_is_no_error(model: Model, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert_same(run(model, tmp_path / "file"), run(model, None))


def test_the_folder_is_below_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LACUNA_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path / "dev-passes"
