# The public API. Names are grouped by what a user does with them, in the order of a project. Each is written once.

# Errors
from .errors import LacunaError as LacunaError
from .errors import LacunaWarning as LacunaWarning

# Domains: everything below in one step
from .domain import Domain as Domain
from .domain import adapt as adapt
from .domain import open_domain as open_domain

# Parallel text
from .records import Languages as Languages
from .records import Origin as Origin
from .records import SentencePair as SentencePair
from .corpora import Cleaning as Cleaning
from .corpora import clean as clean
from .corpora import read_corpus as read_corpus
from .corpora import split_corpus as split_corpus
from .corpora import write_tsv as write_tsv
from .corpora.fetching import fetch_domain as fetch_domain

# Models
from .models import Model as Model
from .models import load_model as load_model
from .models.importing import import_model as import_model
from .models.training import FinetuneSettings as FinetuneSettings
from .models.training import LoraSettings as LoraSettings
from .models.training import TrainSettings as TrainSettings
from .models.training import finetune_model as finetune_model
from .models.training import train_model as train_model

# Stores and memories
from .datastore import Store as Store
from .datastore import build_store as build_store
from .datastore import inspect_store as inspect_store
from .datastore import open_store as open_store
from .datastore import verify_store as verify_store
from .datastore.importing import import_store as import_store
from .index import build_index as build_index
from .index import measure_recall as measure_recall
from .index import open_index as open_index
from .memory import Memory as Memory
from .memory import open_memory as open_memory

# Margins and pruning
from .margin import margin_of as margin_of
from .margin import measure_margin as measure_margin
from .margin import read_margins as read_margins
from .pruning import AllKnown as AllKnown
from .pruning import Cluster as Cluster
from .pruning import Known as Known
from .pruning import Merge as Merge
from .pruning import Plac as Plac
from .pruning import Random as Random
from .pruning import Reverse as Reverse
from .pruning import prune_store as prune_store
from .fitting import choose_pruning as choose_pruning

# Glossaries
from .glossaries import Glossary as Glossary
from .glossaries import Term as Term
from .glossaries import load_glossary as load_glossary

# Combiners, gate and calibration
from .combiners import Adaptive as Adaptive
from .combiners import Kster as Kster
from .combiners import Proximity as Proximity
from .combiners import Vanilla as Vanilla
from .combiners import load_combiner as load_combiner
from .combiners import load_gate as load_gate
from .fitting import DevSet as DevSet
from .fitting import FitAdaptive as FitAdaptive
from .fitting import FitKster as FitKster
from .fitting import FitVanilla as FitVanilla
from .fitting import add_gate as add_gate
from .fitting import calibrate as calibrate
from .fitting import fit_combiner as fit_combiner
from .fitting import tune as tune

# Translating and explaining
from .decoding import BeamSettings as BeamSettings
from .records import Translation as Translation
from .translator import System as System
from .translator import load_calibration as load_calibration
from .translator import Translator as Translator
from .documents import DocumentReport as DocumentReport
from .documents import DocumentSettings as DocumentSettings
from .documents import Paragraph as Paragraph
from .documents import translate_file as translate_file
from .documents import translate_texts as translate_texts
from .explanation import Explanation as Explanation
from .explanation import explain as explain
from .explanation import find_gaps as find_gaps

# Evaluating and reporting
from .evaluation import Score as Score
from .evaluation import SystemScore as SystemScore
from .evaluation import evaluate_systems as evaluate_systems
from .reproduction import read_experiment as read_experiment
from .reproduction import reproduce as reproduce
from .reports import write_report as write_report

from .version import __version__ as __version__
