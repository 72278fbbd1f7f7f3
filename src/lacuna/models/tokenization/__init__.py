"""Tokenization into Moses or jieba words, then byte pair encoding, as in most papers on kNN-MT.

Its packages are optional (extras ``bpe`` and ``zh``) and imported on first use. Knows nothing of networks.
"""

from lacuna.models.tokenization.tokenizer import WordBpe, WordTokenizer

__all__ = ["WordBpe", "WordTokenizer"]
