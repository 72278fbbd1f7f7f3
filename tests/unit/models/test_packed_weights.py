"""Packed weights in the cache: the same arrays again, and never wrong ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError

from lacuna.decoding import BeamSettings, search
from lacuna.errors import LacunaWarning
from lacuna.kernels import compiled as kernels
from lacuna.models import packed_weights
from lacuna.models.adapter import Model
from lacuna.models.compiled_decoder import _ACTIVATIONS, CompiledModel, _supported
from lacuna.models.packed_weights import PackedWeights, cached_file, open_packed, pack_model, save_packed
from lacuna.models.stepping import ModelScorer
from unit.models.tiny_models import SOURCES, Zoo

KINDS = ["marian", "marian-separate", "fsmt", "m2m100", "mbart", "bart"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LACUNA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def packed_model(model: Model, precision: str = "int8") -> PackedWeights:
    layout = _supported(model)
    assert layout is not None
    activation = getattr(kernels, _ACTIVATIONS[model.hf.config.activation_function])
    return pack_model(
        model.hf, model.projection, layout, activation, kernels, fingerprint=model.fingerprint, precision=precision
    )


def path_for(model: Model, precision: str = "int8") -> Path:
    path = cached_file(model.fingerprint, precision, kernels.COLUMNS)
    assert path is not None
    return path


def assert_same(one: PackedWeights | None, other: PackedWeights) -> None:
    assert one is not None
    assert one.settings.model_copy(update={"hash": ""}) == other.settings.model_copy(update={"hash": ""})
    assert set(one.arrays) == set(other.arrays)
    for name, array in one.arrays.items():
        assert (array.dtype, array.shape) == (other.arrays[name].dtype, other.arrays[name].shape), name
        np.testing.assert_array_equal(array, other.arrays[name], name)
        # Kernels are compiled for one kind of array.
        assert array.flags.c_contiguous
        assert array.flags.aligned
        assert array.flags.writeable
        assert type(array) is np.ndarray


def said(model: Model) -> list[tuple[int, ...]]:
    """Translations with 8-bit weights that are not in memory yet."""
    model.forms.clear()
    found = search(ModelScorer(model, int8=True), model.encode_sources(SOURCES), BeamSettings(2, max_new_tokens=8))
    return [hypothesis.tokens for each in found for hypothesis in each]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("precision", ["float32", "int8", "bfloat16"])
def test_saved_and_opened_again_it_is_the_same(zoo: Zoo, kind: str, precision: str) -> None:
    model = zoo.model(kind)
    packed, path = packed_model(model, precision), path_for(model, precision)
    assert open_packed(path, model.fingerprint) is None
    save_packed(packed, path)
    assert_same(open_packed(path, model.fingerprint), packed)
    assert list(path.parent.iterdir()) == [path]


def test_embeddings_that_are_not_shared_are_kept_apart(zoo: Zoo) -> None:
    shared, separate = (packed_model(zoo.model(kind)) for kind in ("marian", "fsmt"))
    assert {name for name in shared.arrays if "tokens" in name} == {"tokens"}
    assert "exact" not in shared.arrays
    assert {name for name in separate.arrays if "tokens" in name} == {"encoder.tokens", "decoder.tokens"}
    model = zoo.model("fsmt")
    stacks = model.hf.model
    for own in ("encoder", "decoder"):
        weight = getattr(stacks, own).embed_tokens.weight.detach().numpy()
        np.testing.assert_array_equal(separate.tables(own, kernels).tokens, weight)
    np.testing.assert_array_equal(separate.exact, model.projection.weight.detach().numpy())


def test_the_second_start_reads_the_file_and_says_the_same(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    model = zoo.load("marian")
    first, path = said(model), path_for(model)
    written = path.stat()

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("packed again")

    monkeypatch.setattr("lacuna.models.compiled_decoder.pack_model", refuse)
    assert said(model) == first
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (written.st_ino, written.st_mtime_ns)


@pytest.fixture(scope="module")
def saved(zoo: Zoo, tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, PackedWeights, Path]:
    """A model, its weights, and their file."""
    model = zoo.model("marian")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("LACUNA_CACHE", str(tmp_path_factory.mktemp("saved")))
        path = path_for(model)
    packed = packed_model(model)
    save_packed(packed, path)
    return model, packed, path


Saved = tuple[Model, PackedWeights, Path]


@settings(max_examples=300)
@given(where=st.floats(0, 1, exclude_max=True), in_header=st.booleans(), bit=st.integers(0, 7))
def test_a_damaged_byte_gives_no_wrong_weights(saved: Saved, where: float, in_header: bool, bit: int) -> None:
    model, packed, path = saved
    content = bytearray(path.read_bytes())
    header = 8 + int.from_bytes(content[:8], "little")
    content[int(where * (header if in_header else len(content)))] ^= 1 << bit
    damaged = path.parent / "damaged" / path.name
    damaged.parent.mkdir(exist_ok=True)
    damaged.write_bytes(content)
    opened = open_packed(damaged, model.fingerprint)
    if opened is not None:  # white space, or a name that is not read
        assert_same(opened, packed)


@pytest.mark.parametrize("heads", [1, 4])
def test_other_numbers_of_the_settings_are_damage(saved: Saved, heads: int) -> None:
    model, _, path = saved
    content = path.read_bytes()
    changed = content.replace(b'\\"heads\\":2', b'\\"heads\\":%d' % heads)
    assert changed != content
    assert len(changed) == len(content)
    other = path.parent / "settings" / path.name
    other.parent.mkdir(exist_ok=True)
    other.write_bytes(changed)
    assert open_packed(other, model.fingerprint) is None


@settings(max_examples=60)
@given(st.floats(0, 1, exclude_max=True))
def test_a_truncated_file_is_none(saved: Saved, share: float) -> None:
    model, _, path = saved
    content = path.read_bytes()
    short = path.parent / "short" / path.name
    short.parent.mkdir(exist_ok=True)
    for length in {int(share * len(content)), int(share * 20)}:
        short.write_bytes(content[:length])
        assert open_packed(short, model.fingerprint) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff" * 8, b"\xff" * 100, b"\x02" + b"\0" * 7 + b"{}", b"\x01" + b"\0" * 7 + b"1"],
    ids=["empty", "a length", "noise", "an empty header", "a number"],
)
def test_what_is_no_such_file_is_none(saved: Saved, tmp_path: Path, content: bytes) -> None:
    (tmp_path / saved[2].name).write_bytes(content)
    assert open_packed(tmp_path / saved[2].name, saved[0].fingerprint) is None


def test_the_file_of_another_model_is_not_read(saved: Saved, tmp_path: Path) -> None:
    model, _, path = saved
    assert open_packed(path, "0" * len(model.fingerprint)) is None
    other = shutil.copy(path, tmp_path / path.name.replace(model.fingerprint[:32], "0" * 32))
    assert open_packed(Path(other), "0" * len(model.fingerprint)) is None


def test_the_file_of_another_processor_or_precision_is_not_read(saved: Saved, tmp_path: Path) -> None:
    model, _, path = saved
    for precision, columns in (("int8", kernels.COLUMNS // 2), ("bfloat16", kernels.COLUMNS)):
        name = f"{model.fingerprint[:32]}-{precision}-{columns}.safetensors"
        assert open_packed(Path(shutil.copy(path, tmp_path / name)), model.fingerprint) is None


@pytest.mark.parametrize("damage", ["flipped", "short", "other model"])
def test_damage_is_packed_again(zoo: Zoo, damage: str) -> None:
    model = zoo.load("marian")
    first, path = said(model), path_for(model)
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[-1] ^= 0x40
    elif damage == "short":
        del content[-100:]
    else:
        save_packed(packed_model(zoo.model("bart")), path)
        content = bytearray(path.read_bytes())
    path.write_bytes(content)
    assert said(model) == first
    assert_same(open_packed(path, model.fingerprint), packed_model(model))


def test_a_place_that_cannot_be_written_is_a_warning_and_no_error(zoo: Zoo, cache: Path) -> None:
    model = zoo.load("marian")
    first = said(model)
    path_for(model).unlink()
    path_for(model).mkdir()
    with pytest.warns(LacunaWarning, match="packed weights cannot be cached .* set LACUNA_CACHE to another folder"):
        assert said(model) == first
    assert [entry.name for entry in path_for(model).parent.iterdir()] == [path_for(model).name]


def test_a_full_disk_is_a_warning_and_no_error(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    model = zoo.load("marian")
    first = said(model)
    path_for(model).unlink()
    monkeypatch.setattr(packed_weights, "save_file", fail)
    with pytest.warns(LacunaWarning, match=r"cannot be cached .*No space left"):
        assert said(model) == first
    assert list(path_for(model).parent.iterdir()) == []


@pytest.fixture(params=["empty", "a file"])
def _no_cache(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LACUNA_CACHE", "" if request.param == "empty" else str(tmp_path / "file"))
    yield
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


@pytest.mark.usefixtures("_no_cache")
def test_without_a_cache_weights_are_packed_in_memory(zoo: Zoo) -> None:
    model = zoo.load("marian")
    assert cached_file(model.fingerprint, "int8", kernels.COLUMNS) is None
    assert said(model) == said(model)


def test_float_weights_are_not_cached(zoo: Zoo, cache: Path) -> None:
    model = zoo.load("marian")
    assert CompiledModel.prepare(model, "float32") is not None
    assert not (cache / "weights").exists()


def test_threads_that_write_at_once_leave_one_whole_file(zoo: Zoo) -> None:
    model = zoo.model("marian")
    packed, path = packed_model(model), path_for(model)

    def save_and_open(_: int) -> PackedWeights | None:
        save_packed(packed, path)
        return open_packed(path, model.fingerprint)

    with ThreadPoolExecutor(4) as pool:
        for opened in pool.map(save_and_open, range(12)):
            assert_same(opened, packed)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.posix
def test_processes_that_start_at_once_translate_alike(zoo: Zoo, cache: Path) -> None:
    cache.mkdir()
    (cache / "kernels").symlink_to(Path(os.environ["XDG_CACHE_HOME"]) / "lacuna" / "kernels")  # compiled before
    program = (
        "import sys, json; import numpy as np; from lacuna.models import load_model\n"
        "from lacuna.models.compiled_decoder import CompiledModel\n"
        "compiled = CompiledModel.prepare(load_model(sys.argv[1], device='cpu'), 'int8')\n"
        "print(json.dumps([float(compiled._head.weight.sum(dtype=np.int64)), compiled._decoder.own.weight.shape[0]]))"
    )
    command = [sys.executable, "-c", program, str(zoo.folder("marian"))]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
    printed = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    head = packed_model(zoo.model("marian")).arrays["head.weight"]
    assert [json.loads(text) for text in printed] == [[float(head.sum(dtype=np.int64)), 2]] * 2
    assert len(list((cache / "weights").iterdir())) == 1
