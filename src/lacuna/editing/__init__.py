"""Edit a memory: add, forget and replace sentences, compact it, and read its log. Each edit is one atomic commit."""

from lacuna.editing.edits import EditReport, add_pairs, compact_memory, forget_sentences, replace_sentence
from lacuna.editing.log import LogEntry, read_log
from lacuna.editing.lookup import Selection, SentenceLookup

__all__ = [
    "EditReport",
    "LogEntry",
    "Selection",
    "SentenceLookup",
    "add_pairs",
    "compact_memory",
    "forget_sentences",
    "read_log",
    "replace_sentence",
]
