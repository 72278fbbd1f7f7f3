"""Import the stores of other toolkits: knn-box, adaptive-knn-mt, knn-transformers. Does not need torch."""

from lacuna.datastore.importing.formats import LOOKED_FOR, recognize_store
from lacuna.datastore.importing.importer import KeyReader, StoreImport, import_store

__all__ = ["LOOKED_FOR", "KeyReader", "StoreImport", "import_store", "recognize_store"]
