"""Memories: search them, read them, edit them, and look into them. Each edit is one atomic commit."""

from lacuna.datastore.log import LogEntry, read_log
from lacuna.memory.base import Memory, open_memory
from lacuna.memory.edits import EditReport, add_pairs, compact_memory, forget_sentences, replace_sentence
from lacuna.memory.lookup import Selection, SentenceLookup
from lacuna.memory.receipts import Receipt, ReceiptCheck, check_receipt
from lacuna.memory.scan import KINDS, Finding, scan_sentences

__all__ = [
    "KINDS",
    "EditReport",
    "Finding",
    "LogEntry",
    "Memory",
    "Receipt",
    "ReceiptCheck",
    "Selection",
    "SentenceLookup",
    "add_pairs",
    "check_receipt",
    "compact_memory",
    "forget_sentences",
    "open_memory",
    "read_log",
    "replace_sentence",
    "scan_sentences",
]
