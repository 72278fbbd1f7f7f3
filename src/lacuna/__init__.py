"""Lacuna: adapt a translation model to a domain with a searchable memory, and keep only what the model needs.

Names are found here when they are first used, so that ``import lacuna`` and ``lacuna --help`` stay quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lacuna.version import __version__

if TYPE_CHECKING:
    from lacuna.analysis import choose_pruning
    from lacuna.combiners import Adaptive, Kster, Vanilla, load_combiner
    from lacuna.corpora import Cleaning, clean, read_corpus, split_corpus, write_tsv
    from lacuna.corpora.fetching import fetch_domain
    from lacuna.datastore import Store, build_store, open_store
    from lacuna.datastore.importing import import_store
    from lacuna.decoding import BeamSettings
    from lacuna.evaluation import Score, SystemScore, evaluate_systems
    from lacuna.fitting import FitAdaptive, FitKster, FitVanilla, fit_combiner, tune
    from lacuna.index import build_index, open_index
    from lacuna.margin import margin_of, measure_margin
    from lacuna.models import Model, load_model
    from lacuna.models.finetuning import FinetuneSettings, LoraSettings, finetune_model
    from lacuna.models.importing import import_model
    from lacuna.models.training import TrainSettings, train_model
    from lacuna.pruning import Plac, prune_store
    from lacuna.records import Languages, Origin, SentencePair
    from lacuna.reports import write_report
    from lacuna.reproduction import read_experiment, reproduce
    from lacuna.translator import Memory, Translator, open_memory

_HOMES = {
    "Adaptive": "lacuna.combiners",
    "BeamSettings": "lacuna.decoding",
    "Cleaning": "lacuna.corpora",
    "FinetuneSettings": "lacuna.models.finetuning",
    "FitAdaptive": "lacuna.fitting",
    "FitKster": "lacuna.fitting",
    "FitVanilla": "lacuna.fitting",
    "Kster": "lacuna.combiners",
    "Languages": "lacuna.records",
    "LoraSettings": "lacuna.models.finetuning",
    "Memory": "lacuna.translator",
    "Model": "lacuna.models",
    "Origin": "lacuna.records",
    "Plac": "lacuna.pruning",
    "Score": "lacuna.evaluation",
    "SentencePair": "lacuna.records",
    "Store": "lacuna.datastore",
    "SystemScore": "lacuna.evaluation",
    "TrainSettings": "lacuna.models.training",
    "Translator": "lacuna.translator",
    "Vanilla": "lacuna.combiners",
    "build_index": "lacuna.index",
    "build_store": "lacuna.datastore",
    "choose_pruning": "lacuna.analysis",
    "clean": "lacuna.corpora",
    "evaluate_systems": "lacuna.evaluation",
    "fetch_domain": "lacuna.corpora.fetching",
    "finetune_model": "lacuna.models.finetuning",
    "fit_combiner": "lacuna.fitting",
    "import_model": "lacuna.models.importing",
    "import_store": "lacuna.datastore.importing",
    "load_combiner": "lacuna.combiners",
    "load_model": "lacuna.models",
    "margin_of": "lacuna.margin",
    "measure_margin": "lacuna.margin",
    "open_index": "lacuna.index",
    "open_memory": "lacuna.translator",
    "open_store": "lacuna.datastore",
    "prune_store": "lacuna.pruning",
    "read_corpus": "lacuna.corpora",
    "read_experiment": "lacuna.reproduction",
    "reproduce": "lacuna.reproduction",
    "split_corpus": "lacuna.corpora",
    "train_model": "lacuna.models.training",
    "tune": "lacuna.fitting",
    "write_report": "lacuna.reports",
    "write_tsv": "lacuna.corpora",
}

__all__ = [
    "Adaptive",
    "BeamSettings",
    "Cleaning",
    "FinetuneSettings",
    "FitAdaptive",
    "FitKster",
    "FitVanilla",
    "Kster",
    "Languages",
    "LoraSettings",
    "Memory",
    "Model",
    "Origin",
    "Plac",
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
    "choose_pruning",
    "clean",
    "evaluate_systems",
    "fetch_domain",
    "finetune_model",
    "fit_combiner",
    "import_model",
    "import_store",
    "load_combiner",
    "load_model",
    "margin_of",
    "measure_margin",
    "open_index",
    "open_memory",
    "open_store",
    "prune_store",
    "read_corpus",
    "read_experiment",
    "reproduce",
    "split_corpus",
    "train_model",
    "tune",
    "write_report",
    "write_tsv",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public object
    if name not in _HOMES:
        raise AttributeError(f"module 'lacuna' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
