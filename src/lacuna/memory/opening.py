"""Where a memory is decides its backend: a folder, or an address in Milvus. Nothing else asks.

A backend is imported when it is used.
"""

from __future__ import annotations

from pathlib import Path

from lacuna.memory.base import Memory
from lacuna.milvus.address import MilvusAddress, is_address


def place_in(folder: Path, place: str) -> str:
    """Return the place of a memory that is named relative to a folder; an address is the same everywhere."""
    return place if is_address(place) else str(folder / place)


def memory_at(place: str | Path, name: str | None = None) -> Memory:
    """Return a memory to edit. A folder is not read before it is used; :meth:`Memory.add` makes one that is missing.

    :param place: A folder, or the address of a collection such as ``milvus://host:19530/it``.
    :param name: By default that of the folder or of the collection.
    """
    if is_address(str(place)):
        from lacuna.memory.milvus_memory import open_milvus_memory

        return open_milvus_memory(MilvusAddress.parse(str(place)), name)
    from lacuna.memory.folder_memory import FolderMemory

    return FolderMemory(Path(place), name)


def open_memory(place: str | Path, name: str | None = None) -> Memory:
    """Open a memory to search it: a folder must have an index.

    :param place: As in :func:`memory_at`, like the name.
    """
    memory = memory_at(place, name)
    _ = memory.index_kind  # opens the index
    return memory
