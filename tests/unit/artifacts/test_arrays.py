"""Arrays on disk: complete, or an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lacuna.artifacts.arrays import save_array

# A file cannot grow beyond the limit: as on a disk that is full after so many bytes.
LIMITED = """
import resource, signal, sys
from pathlib import Path
import numpy as np
from lacuna.artifacts.arrays import save_array
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    save_array(Path(sys.argv[1]), np.arange(400.0))
except OSError:
    print("noticed")
"""


@pytest.mark.parametrize("shape", [(0,), (0, 4), (), (3,), (5, 4), (3_000_000,)])
@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.bool_])
def test_the_bytes_are_those_of_numpy(tmp_path: Path, shape: tuple[int, ...], dtype: type[np.generic]) -> None:
    array = (np.arange(int(np.prod(shape))) % 1000).reshape(shape).astype(dtype)
    save_array(tmp_path / "ours.npy", array)
    np.save(tmp_path / "theirs.npy", array)
    assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "theirs.npy").read_bytes()


@pytest.mark.posix
@pytest.mark.parametrize("limit", [0, 100, 128, 1000, 3327])
def test_an_array_that_is_cut_by_a_full_disk_is_noticed(tmp_path: Path, limit: int) -> None:
    """NumPy itself does not notice it for the last few thousand bytes."""
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "a.npy"), str(limit)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "noticed\n"
