"""Tokenization: pieces of sentencepiece, or Moses or jieba words with byte pair encoding as in most papers on kNN-MT.

The packages for words are optional (extras ``bpe`` and ``zh``) and imported on first use. Knows nothing of networks.
"""

from typing import Any

from lacuna.models.tokenization.piece_tokenizer import PieceTokenizer
from lacuna.models.tokenization.tokenizer import WordBpe

# A PieceTokenizer, a WordTokenizer, or a tokenizer of transformers.
Tokenizer = Any

__all__ = ["PieceTokenizer", "Tokenizer", "WordBpe"]
