"""Tokenization the paper's way: words by Moses or jieba, then byte pair encoding. Knows nothing of networks."""

from lacuna.models.words.pieces import WordPieces
from lacuna.models.words.tokenizer import WordTokenizer

__all__ = ["WordPieces", "WordTokenizer"]
