"""The reader of model.bin: what a hand-written file says, and no file that makes it fail otherwise than in one line."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lacuna.errors import ModelError
from lacuna.models.importing.ct2_file import read_model_file
from unit.models.importing.ct2_toy import write_model_bin

ARRAYS = {
    "a/weight": np.array([[10, -127], [64, 127]], np.int8),
    "a/weight_scale": np.array([2.0, 127.0], np.float32),
    "b/weight": np.array([[1024, -512]], np.int16),
    "b/weight_scale": np.float32(1024).reshape(()),
    "half": np.array([0.5, -2.0], np.float16),
    "flag": np.int8(1).reshape(()),
}


@pytest.mark.parametrize("version", [4, 5, 6])
def test_reads_every_type(tmp_path: Path, version: int) -> None:
    file = read_model_file(write_model_bin(tmp_path / "model.bin", ARRAYS, {"c/weight": "a/weight"}, version=version))
    assert (file.spec, file.revision) == ("TransformerSpec", 7)
    expected = np.array([[5.0, -63.5], [64 / 127, 1.0]], np.float32)
    np.testing.assert_array_equal(file.values("a/weight"), expected)
    np.testing.assert_array_equal(file.values("c/weight"), expected)  # an alias stands for the scale as well
    np.testing.assert_array_equal(file.values("b/weight"), [[1.0, -0.5]])
    np.testing.assert_array_equal(file.values("half"), [0.5, -2.0])
    assert file.values("flag") == 1


def test_reads_bfloat16(tmp_path: Path) -> None:
    """1.5 is 0x3FC00000 and -2 is 0xC0000000 in float32; bfloat16 keeps the upper half."""
    head = struct.pack("<IH2sII", 6, 2, b"T\0", 7, 1) + struct.pack("<H2sBIBI", 2, b"x\0", 1, 2, 5, 4)
    (tmp_path / "model.bin").write_bytes(head + struct.pack("<HH", 0x3FC0, 0xC000) + struct.pack("<I", 0))
    np.testing.assert_array_equal(read_model_file(tmp_path / "model.bin").values("x"), [1.5, -2.0])


@given(cut=st.integers(0, 10_000))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_truncated_anywhere(tmp_path: Path, cut: int) -> None:
    whole = write_model_bin(tmp_path / "model.bin", ARRAYS, {"c/weight": "a/weight"}).read_bytes()
    (tmp_path / "cut.bin").write_bytes(whole[: cut % len(whole)])
    with pytest.raises(ModelError) as caught:
        read_model_file(tmp_path / "cut.bin")
    assert "\n" not in str(caught.value)


@given(place=st.integers(0, 10_000), byte=st.integers(0, 255))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_anywhere(tmp_path: Path, place: int, byte: int) -> None:
    """A changed byte is refused, or changes names or numbers; it never leads past the file's end."""
    content = bytearray(write_model_bin(tmp_path / "model.bin", ARRAYS, {"c/weight": "a/weight"}).read_bytes())
    content[place % len(content)] = byte
    (tmp_path / "damaged.bin").write_bytes(content)
    try:
        file = read_model_file(tmp_path / "damaged.bin")
        total = sum(array.nbytes for array in {id(array): array for array in file.variables.values()}.values())
    except ModelError:
        return
    assert total <= len(content)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"w": np.ones((2, 2), np.int8)}, "quantized but has no scale"),
        ({"w": np.ones((2, 2), np.int8), "w_scale": np.ones(3, np.float32)}, "scale of another shape"),
        ({"w": np.ones((2, 2), np.int8), "w_scale": np.ones((2, 2), np.float32)}, "scale of another shape"),
    ],
)
def test_scales_that_do_not_fit(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    file = read_model_file(write_model_bin(tmp_path / "model.bin", arrays))
    with pytest.raises(ModelError, match=message):
        file.values("w")


def test_other_versions_and_aliases_to_nothing(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="binary version 7; supported are 4 to 6"):
        read_model_file(write_model_bin(tmp_path / "model.bin", ARRAYS, version=7))
    with pytest.raises(ModelError, match="x stands for y, which is not there"):
        read_model_file(write_model_bin(tmp_path / "model.bin", ARRAYS, {"x": "y"}))
    with pytest.raises(ModelError, match="cannot be read"):
        read_model_file(tmp_path / "absent.bin")
