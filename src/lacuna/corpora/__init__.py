"""Parallel text: reading it, cleaning it, splitting it, writing it, fetching it by name."""

from lacuna.corpora.cleaning import Cleaning, CleaningReport, clean
from lacuna.corpora.reading import BILINGUAL_SUFFIXES, read_corpus
from lacuna.corpora.splitting import Split, draw_pairs, split_corpus
from lacuna.corpora.text import write_tsv

__all__ = [
    "BILINGUAL_SUFFIXES",
    "Cleaning",
    "CleaningReport",
    "Split",
    "clean",
    "draw_pairs",
    "read_corpus",
    "split_corpus",
    "write_tsv",
]
