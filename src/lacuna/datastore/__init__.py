"""The store: what a model said at every target token of a corpus, as columns on disk. Needs no torch."""

from lacuna.datastore.build import build_store
from lacuna.datastore.checks import VerifyReport, verify_store
from lacuna.datastore.columns import Keys
from lacuna.datastore.inspecting import StoreReport, inspect_store
from lacuna.datastore.listing import Entry, entries_of
from lacuna.datastore.manifest import BuildSettings, Manifest
from lacuna.datastore.predictions import PredictionReport, compare_predictions
from lacuna.datastore.sentences import SentenceTable
from lacuna.datastore.store import Store, open_store

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
