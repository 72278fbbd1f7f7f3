"""Memories in Milvus: a collection of entries and one of sentence pairs, in a file, on a server or on a cluster."""

from lacuna.milvus.address import MilvusAddress
from lacuna.milvus.collection import Collection, Hits
from lacuna.milvus.collection_kind import CollectionKind
from lacuna.milvus.collection_store import CollectionStore, open_collection_store
from lacuna.milvus.link import CollectionLink, read_link, remove_link, write_link
from lacuna.milvus.schema import CollectionInfo

__all__ = [
    "Collection",
    "CollectionInfo",
    "CollectionKind",
    "CollectionLink",
    "CollectionStore",
    "Hits",
    "MilvusAddress",
    "open_collection_store",
    "read_link",
    "remove_link",
    "write_link",
]
