"""Messages that carry a task to another process: small, with the large arrays of the task in files.

Arrays that are mapped from files, such as the keys of a store, are named by file and place. Other large arrays are
written to a folder, and mapped by the receiver. Objects that are opened from files (:class:`~lacuna.workers.Reopened`)
are opened again. The message itself is a pickle, which is sent and never written to a file. Knows nothing of Dask.
"""

from __future__ import annotations

import io
import mmap
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.artifacts.arrays import save_array

_LARGE = 1 << 16  # bytes of an array that goes into a file
_MAX_MESSAGE = 1 << 26
# Tasks that a process keeps open: those of one step of the work, with all that they have opened.
_KEPT = 2

_opened: OrderedDict[bytes, Callable[[Any], Any]] = OrderedDict()
_opening = Lock()


def pack_task(task: Callable[[Any], Any], files: Path | None) -> bytes:
    """Return the message of a task.

    :param files: An existing folder for large arrays, which must stay until the last task is done; ``None`` puts all of
        them into the message.
    """
    buffer = io.BytesIO()
    _Packer(buffer, files).dump(task)
    message = buffer.getvalue()
    if len(message) > _MAX_MESSAGE:
        raise ValueError(f"a task of {len(message):,} bytes: large arrays belong into files")
    return message


def open_task(message: bytes) -> Callable[[Any], Any]:
    """Return the task of a message; the tasks of the last messages stay open in this process."""
    with _opening:  # two threads of a process must not load a model twice
        task: Callable[[Any], Any]
        task = _opened.pop(message) if message in _opened else _Opener(io.BytesIO(message)).load()
        _opened[message] = task  # the last of them
        while len(_opened) > _KEPT:
            _opened.popitem(last=False)
        return task


def forget_tasks() -> None:
    """Close all tasks that are open in this process, so that their files can be removed."""
    with _opening:
        _opened.clear()


class _Packer(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, files: Path | None) -> None:
        super().__init__(buffer, protocol=pickle.HIGHEST_PROTOCOL)
        self._files = files
        self._written: dict[int, tuple[Any, tuple[Any, ...]]] = {}  # by id, with the object, so that the id stays its

    def reducer_override(self, obj: Any) -> Any:  # noqa: ANN401 - as in pickle
        return obj.reopening() if hasattr(type(obj), "reopening") else NotImplemented

    def persistent_id(self, obj: Any) -> tuple[Any, ...] | None:  # noqa: ANN401 - as in pickle
        torch = sys.modules.get("torch")
        if isinstance(obj, np.ndarray):
            return _place_of(obj) or self._in_file(obj, obj, "array")
        if torch is not None and type(obj) is torch.Tensor and obj.device.type == "cpu" and not obj.requires_grad:
            return self._in_file(obj, obj.numpy(), "tensor")
        return None

    def _in_file(self, obj: Any, array: NDArray[Any], kind: str) -> tuple[Any, ...] | None:  # noqa: ANN401
        if self._files is None or array.nbytes < _LARGE or array.dtype.hasobject:
            return None
        if id(obj) not in self._written:
            path = self._files / f"{len(self._written)}.npy"
            save_array(path, array)
            self._written[id(obj)] = obj, (kind, str(path.resolve()))
        return self._written[id(obj)][1]


class _Opener(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> Any:  # noqa: ANN401 - as in pickle
        kind, path, *rest = pid
        if kind == "mapped":
            dtype, shape, offset = rest
            return np.memmap(path, np.dtype(dtype), "r", offset, shape).view(np.ndarray)
        # Copy on write: torch wants arrays that can be written.
        array = np.load(path, mmap_mode="c", allow_pickle=False).view(np.ndarray)
        return sys.modules["torch"].from_numpy(array) if kind == "tensor" else array


def _place_of(array: NDArray[Any]) -> tuple[Any, ...] | None:
    """Return file, type, shape and place of an array that is mapped read-only; ``None`` for others."""
    mapped: Any = array
    while mapped is not None and not (isinstance(mapped, np.memmap) and isinstance(mapped.base, mmap.mmap)):
        mapped = getattr(mapped, "base", None)
    if mapped is None or mapped.mode != "r" or not mapped.filename or not array.nbytes or not array.flags.c_contiguous:
        return None
    offset = int(mapped.offset + array.ctypes.data - mapped.ctypes.data)
    return "mapped", str(Path(mapped.filename).resolve()), array.dtype.str, array.shape, offset
