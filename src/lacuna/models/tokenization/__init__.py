"""Tokenization the paper's way: words by Moses or jieba, then byte pair encoding. Knows nothing of networks."""

from lacuna.models.tokenization.tokenizer import WordPieces, WordTokenizer

__all__ = ["WordPieces", "WordTokenizer"]
