"""Glossaries: files of terms, terms in texts, and which forms of a translation are accepted.

Knows nothing of translation models.
"""

from lacuna.glossaries.glossary import Glossary, Term

__all__ = ["Glossary", "Term"]
