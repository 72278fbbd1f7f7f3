"""The forms of the tiles for other processors, in a process that compiles for them."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from llvmlite import binding

from unit.kernels import other_forms
from unit.models.tiny_models import Zoo

# By name: the processor, its features, and whether to translate, too, for which all kernels are compiled.
FORMS = {
    "AVX-512 without VNNI": ("skylake-avx512", "avx512f avx512bw avx512cd avx512dq avx512vl avx2 fma avx", False),
    "AVX2": ("haswell", "avx2 fma avx", True),
    "plain": ("generic", "", False),
}


@pytest.fixture(scope="module")
def here(zoo: Zoo) -> dict[str, np.ndarray]:
    """What the form of this process gives."""
    return other_forms.run(zoo.folder("marian"))


@pytest.mark.parametrize("form", sorted(FORMS))
def test_all_forms_give_the_same(form: str, here: dict[str, np.ndarray], zoo: Zoo, tmp_path: Path) -> None:
    name, features, translates = FORMS[form]
    present = binding.get_host_cpu_features()
    if features and platform.machine().lower() not in ("x86_64", "amd64"):
        pytest.skip("a form of x86-64")
    if missing := [each for each in features.split() if not present.get(each)]:
        pytest.skip(f"this processor has no {missing[0]}")
    listed = ",".join(f"+{each}" for each in features.split())
    settings = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": listed, "PYTHONPATH": os.pathsep.join(sys.path)}
    folders = [str(zoo.folder("marian"))] if translates else []
    command = [sys.executable, other_forms.__file__, str(tmp_path / "found.npz"), *folders]
    subprocess.run(command, env=os.environ | settings, check=True)
    with np.load(tmp_path / "found.npz") as file:
        found = dict(file)
    assert set(found) == {each for each in here if translates or not each.startswith(("translation", "scores"))}
    for each, numbers in found.items():
        if each.startswith(("product int", "tokens", "translation")):
            np.testing.assert_array_equal(numbers, here[each], each)
        else:  # sums of floats in another order
            tolerance = 1e-3 if each == "scores" else 1e-5  # layers round again what differs in the last bit
            np.testing.assert_allclose(numbers, here[each], rtol=tolerance, atol=tolerance, err_msg=each)
