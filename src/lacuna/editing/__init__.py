"""Edit a memory: add, forget and replace sentences, compact it, and read its log. Each edit is one atomic commit."""

from lacuna.datastore.log import LogEntry, read_log
from lacuna.editing.edits import EditReport, add_pairs, compact_memory, forget_sentences, replace_sentence
from lacuna.editing.lookup import Selection, SentenceLookup
from lacuna.editing.receipts import Receipt, ReceiptCheck, check_receipt
from lacuna.editing.scan import KINDS, Finding, scan_sentences

__all__ = [
    "KINDS",
    "EditReport",
    "Finding",
    "LogEntry",
    "Receipt",
    "ReceiptCheck",
    "Selection",
    "SentenceLookup",
    "add_pairs",
    "check_receipt",
    "compact_memory",
    "forget_sentences",
    "read_log",
    "replace_sentence",
    "scan_sentences",
]
