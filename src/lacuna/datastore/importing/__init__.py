"""Importing the stores of other toolkits, so that they can be measured, pruned and used. Needs no torch."""

from lacuna.datastore.importing.formats import LOOKED_FOR, recognize_store
from lacuna.datastore.importing.importer import KeyReader, StoreImport, import_store

__all__ = ["LOOKED_FOR", "KeyReader", "StoreImport", "import_store", "recognize_store"]
