"""Parallel text: read, clean, split, write and fetch it."""

from lacuna.corpora.cleaning import DEFAULT_CLEANING, Cleaning, CleaningReport, clean, count_pairs
from lacuna.corpora.reading import BILINGUAL_SUFFIXES, ReadingReport, read_corpora, read_corpus
from lacuna.corpora.splitting import Split, draw_pairs, source_keys, split_corpus, without_sources
from lacuna.corpora.text import write_tsv

__all__ = [
    "BILINGUAL_SUFFIXES",
    "DEFAULT_CLEANING",
    "Cleaning",
    "CleaningReport",
    "ReadingReport",
    "Split",
    "clean",
    "count_pairs",
    "draw_pairs",
    "read_corpora",
    "read_corpus",
    "source_keys",
    "split_corpus",
    "without_sources",
    "write_tsv",
]
