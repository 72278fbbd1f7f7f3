"""Write arrays as ``.npy`` files.

NumPy writes the data of an array past Python, and does not notice if the last bytes do not fit on the disk. Here Python
writes all of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray


class _Output:
    """A file that NumPy does not recognize as one."""

    def __init__(self, file: BinaryIO) -> None:
        self.write = file.write


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array, or raise an OSError if it cannot be written in full; the caller makes it atomic."""
    with path.open("wb") as file:
        np.save(_Output(file), array, allow_pickle=False)
