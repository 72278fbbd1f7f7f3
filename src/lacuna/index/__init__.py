"""Nearest-neighbor search over the keys of a store: exact, or with faiss."""

from lacuna.index.base import KeyColumn, KeyStore, Neighborhood, VectorIndex
from lacuna.index.building import IndexReport, build_index, check_kind, open_index
from lacuna.index.exact import ExactIndex
from lacuna.index.faiss import FaissIndex
from lacuna.index.filtered import FilteredIndex
from lacuna.index.kinds import SearchSettings, choose_kind
from lacuna.index.manifest import IndexManifest, read_manifest
from lacuna.index.recall import RecallReport, measure_recall

__all__ = [
    "ExactIndex",
    "FaissIndex",
    "FilteredIndex",
    "IndexManifest",
    "IndexReport",
    "KeyColumn",
    "KeyStore",
    "Neighborhood",
    "RecallReport",
    "SearchSettings",
    "VectorIndex",
    "build_index",
    "check_kind",
    "choose_kind",
    "measure_recall",
    "open_index",
    "read_manifest",
]
