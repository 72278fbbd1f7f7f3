"""All compiled kernels; importing this module needs numba."""

from lacuna.kernels.compiling import announced
from lacuna.kernels.layers import (
    GELU,
    RELU,
    SILU,
    Hypotheses,
    Layers,
    Tables,
    advance,
    decode,
    encode,
    force,
)
from lacuna.kernels.next_tokens import find_next, score_tokens, top_k
from lacuna.kernels.products import PackedLinear, pack, product, supports
from lacuna.kernels.tiles import COLUMNS

__all__ = [
    "COLUMNS",
    "GELU",
    "RELU",
    "SILU",
    "Hypotheses",
    "Layers",
    "PackedLinear",
    "Tables",
    "advance",
    "announced",
    "decode",
    "encode",
    "find_next",
    "force",
    "pack",
    "product",
    "score_tokens",
    "supports",
    "top_k",
]
