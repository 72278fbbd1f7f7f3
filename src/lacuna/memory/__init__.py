"""Memories: search, read, edit and look into them, in a folder or in Milvus."""

from lacuna.datastore.log import LogEntry, read_log
from lacuna.memory.base import FoundEntries, Memory
from lacuna.memory.editing import EditReport
from lacuna.memory.folder_edits import compact_memory
from lacuna.memory.folder_memory import FolderMemory
from lacuna.memory.lookup import Selection
from lacuna.memory.matches import Match, SegmentMatches
from lacuna.memory.milvus_memory import MilvusMemory
from lacuna.memory.opening import memory_at, open_memory, place_in
from lacuna.memory.receipts import Receipt, ReceiptCheck, check_receipt
from lacuna.memory.scan import KINDS, Finding, scan_sentences

__all__ = [
    "KINDS",
    "EditReport",
    "Finding",
    "FolderMemory",
    "FoundEntries",
    "LogEntry",
    "Match",
    "Memory",
    "MilvusMemory",
    "Receipt",
    "ReceiptCheck",
    "SegmentMatches",
    "Selection",
    "check_receipt",
    "compact_memory",
    "memory_at",
    "open_memory",
    "place_in",
    "read_log",
    "scan_sentences",
]
