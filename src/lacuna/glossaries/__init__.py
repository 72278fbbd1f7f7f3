"""Glossaries: files of terms, terms in texts, and which forms of a translation are accepted.

Knows nothing of models.
"""

from lacuna.glossaries.accepted_forms import AcceptedForms, surface_forms
from lacuna.glossaries.glossary import Glossary, Term
from lacuna.glossaries.glossary_files import load_glossary, write_glossary
from lacuna.glossaries.stemming import Stemmer
from lacuna.glossaries.term_finder import FoundTerm, TermFinder
from lacuna.glossaries.words import is_spaced, split_words

__all__ = [
    "AcceptedForms",
    "FoundTerm",
    "Glossary",
    "Stemmer",
    "Term",
    "TermFinder",
    "is_spaced",
    "load_glossary",
    "split_words",
    "surface_forms",
    "write_glossary",
]
