"""The client of Milvus: a collection of entries and one of sentence pairs, in a file, on a server or on a cluster."""

from lacuna.milvus.address import MilvusAddress
from lacuna.milvus.collection import Collection
from lacuna.milvus.collection_kind import CollectionKind
from lacuna.milvus.link import CollectionLink, read_link, remove_link, write_link
from lacuna.milvus.schema import CollectionInfo

__all__ = [
    "Collection",
    "CollectionInfo",
    "CollectionKind",
    "CollectionLink",
    "MilvusAddress",
    "read_link",
    "remove_link",
    "write_link",
]
