"""Lacuna: adapt a translation model to a domain with a searchable memory, and keep only what the model needs.

Names are found here when they are first used, so that ``import lacuna`` and ``lacuna --help`` stay quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lacuna.version import __version__

if TYPE_CHECKING:
    from lacuna.corpora import Cleaning, clean, read_corpus, split_corpus, write_tsv
    from lacuna.corpora.fetching import fetch_domain
    from lacuna.models import Model, load_model
    from lacuna.models.training import TrainSettings, train_model
    from lacuna.records import Languages, Origin, SentencePair

_HOMES = {
    "Cleaning": "lacuna.corpora",
    "Languages": "lacuna.records",
    "Model": "lacuna.models",
    "Origin": "lacuna.records",
    "SentencePair": "lacuna.records",
    "TrainSettings": "lacuna.models.training",
    "clean": "lacuna.corpora",
    "fetch_domain": "lacuna.corpora.fetching",
    "load_model": "lacuna.models",
    "read_corpus": "lacuna.corpora",
    "split_corpus": "lacuna.corpora",
    "train_model": "lacuna.models.training",
    "write_tsv": "lacuna.corpora",
}

__all__ = [
    "Cleaning",
    "Languages",
    "Model",
    "Origin",
    "SentencePair",
    "TrainSettings",
    "__version__",
    "clean",
    "fetch_domain",
    "load_model",
    "read_corpus",
    "split_corpus",
    "train_model",
    "write_tsv",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public object
    if name not in _HOMES:
        raise AttributeError(f"module 'lacuna' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
