"""The store: the keys, values and predictions of a model for all target tokens of a corpus. Does not need torch."""

from lacuna.datastore.building import build_store
from lacuna.datastore.columns import Keys, SentenceTable
from lacuna.datastore.inspection import Entry, StoreReport, entries_of, inspect_store
from lacuna.datastore.manifest import BuildSettings, Manifest
from lacuna.datastore.store import Store, open_store
from lacuna.datastore.verification import PredictionReport, VerifyReport, compare_predictions, verify_store

__all__ = [
    "BuildSettings",
    "Entry",
    "Keys",
    "Manifest",
    "PredictionReport",
    "SentenceTable",
    "Store",
    "StoreReport",
    "VerifyReport",
    "build_store",
    "compare_predictions",
    "entries_of",
    "inspect_store",
    "open_store",
    "verify_store",
]
