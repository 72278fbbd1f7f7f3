"""Lacuna: adapt a translation model to a domain with a searchable memory, and keep only what the model needs.

Names are found here when they are first used, so that ``import lacuna`` and ``lacuna --help`` stay quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lacuna.version import __version__

if TYPE_CHECKING:
    from lacuna.combiners import Vanilla
    from lacuna.corpora import Cleaning, clean, read_corpus, split_corpus, write_tsv
    from lacuna.corpora.fetching import fetch_domain
    from lacuna.datastore import Store, build_store, open_store
    from lacuna.decoding import BeamSettings
    from lacuna.evaluation import Score, SystemScore, evaluate_systems
    from lacuna.index import build_index, open_index
    from lacuna.models import Model, load_model
    from lacuna.models.training import TrainSettings, train_model
    from lacuna.records import Languages, Origin, SentencePair
    from lacuna.translator import Memory, Translator, open_memory, tune

_HOMES = {
    "BeamSettings": "lacuna.decoding",
    "Cleaning": "lacuna.corpora",
    "Languages": "lacuna.records",
    "Memory": "lacuna.translator",
    "Model": "lacuna.models",
    "Origin": "lacuna.records",
    "Score": "lacuna.evaluation",
    "SentencePair": "lacuna.records",
    "Store": "lacuna.datastore",
    "SystemScore": "lacuna.evaluation",
    "TrainSettings": "lacuna.models.training",
    "Translator": "lacuna.translator",
    "Vanilla": "lacuna.combiners",
    "build_index": "lacuna.index",
    "build_store": "lacuna.datastore",
    "clean": "lacuna.corpora",
    "evaluate_systems": "lacuna.evaluation",
    "fetch_domain": "lacuna.corpora.fetching",
    "load_model": "lacuna.models",
    "open_index": "lacuna.index",
    "open_memory": "lacuna.translator",
    "open_store": "lacuna.datastore",
    "read_corpus": "lacuna.corpora",
    "split_corpus": "lacuna.corpora",
    "train_model": "lacuna.models.training",
    "tune": "lacuna.translator",
    "write_tsv": "lacuna.corpora",
}

__all__ = [
    "BeamSettings",
    "Cleaning",
    "Languages",
    "Memory",
    "Model",
    "Origin",
    "Score",
    "SentencePair",
    "Store",
    "SystemScore",
    "TrainSettings",
    "Translator",
    "Vanilla",
    "__version__",
    "build_index",
    "build_store",
    "clean",
    "evaluate_systems",
    "fetch_domain",
    "load_model",
    "open_index",
    "open_memory",
    "open_store",
    "read_corpus",
    "split_corpus",
    "train_model",
    "tune",
    "write_tsv",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public object
    if name not in _HOMES:
        raise AttributeError(f"module 'lacuna' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
