"""Translate paragraphs and files: one module for each format, and what they have in common."""

from lacuna.documents.document_files import check_review, translate_file, translate_texts
from lacuna.documents.file_formats import format_of, is_document, known_suffixes
from lacuna.documents.paragraphs import Paragraph, Splitter, fitting, translate_paragraphs
from lacuna.documents.sentence_files import PlacedSentence, is_plain_text, open_sentences
from lacuna.documents.translation import DocumentReport, DocumentSettings, DocumentTranslator, check_files

__all__ = [
    "DocumentReport",
    "DocumentSettings",
    "DocumentTranslator",
    "Paragraph",
    "PlacedSentence",
    "Splitter",
    "check_files",
    "check_review",
    "fitting",
    "format_of",
    "is_document",
    "is_plain_text",
    "known_suffixes",
    "open_sentences",
    "translate_file",
    "translate_paragraphs",
    "translate_texts",
]
