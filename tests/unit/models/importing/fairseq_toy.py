"""A toy fairseq: writes checkpoint folders in its layout, and computes its Transformer from first principles."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import torch

WIDTH, INNER, HEADS, LAYERS = 8, 12, 2, 2
SOURCE_PIECES = ["das", "hau@@", "s", "h@@", "a@@", "u@@", "t", "madeupword0000"]
TARGET_PIECES = ["the", "h@@", "o@@", "use", "s", "a", "hau@@", "t", "r@@", "madeupword0000", "madeupword0001"]
CODES = "d a 90\nda s</w> 80\nh a 70\nha u 60\nt h 50\nth e</w> 40\nu s 30\nus e</w> 20\n"


def settings(**other: Any) -> argparse.Namespace:
    values = {
        "arch": "transformer_wmt_en_de",
        "source_lang": "de",
        "target_lang": "en",
        "encoder_attention_heads": HEADS,
        "decoder_attention_heads": HEADS,
        "activation_fn": "relu",
        "max_source_positions": 40,
        "max_target_positions": 30,
        "encoder_normalize_before": False,
        "share_all_embeddings": False,
        "share_decoder_input_output_embed": False,
        "adaptive_softmax_cutoff": None,
    }
    return argparse.Namespace(**(values | other))


def make_weights(source_size: int, target_size: int, *, sharing: str = "none") -> dict[str, torch.Tensor]:
    """Return random weights under fairseq's names; sharing is ``none``, ``output`` or ``all``."""
    generator = torch.Generator().manual_seed(5)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * 0.4

    weights: dict[str, torch.Tensor] = {}
    for side, attentions in (("encoder", ["self_attn"]), ("decoder", ["self_attn", "encoder_attn"])):
        weights[f"{side}.version"] = torch.tensor([3.0])
        weights[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
        for number in range(LAYERS):
            layer = f"{side}.layers.{number}"
            for attention in attentions:
                for part in ("q", "k", "v", "out"):
                    weights[f"{layer}.{attention}.{part}_proj.weight"] = random(WIDTH, WIDTH)
                    weights[f"{layer}.{attention}.{part}_proj.bias"] = random(WIDTH)
            weights[f"{layer}.fc1.weight"], weights[f"{layer}.fc1.bias"] = random(INNER, WIDTH), random(INNER)
            weights[f"{layer}.fc2.weight"], weights[f"{layer}.fc2.bias"] = random(WIDTH, INNER), random(WIDTH)
            for norm in [*(f"{attention}_layer_norm" for attention in attentions), "final_layer_norm"]:
                weights[f"{layer}.{norm}.weight"], weights[f"{layer}.{norm}.bias"] = 1 + random(WIDTH), random(WIDTH)
    weights["decoder.embed_tokens.weight"] = random(target_size, WIDTH)
    shared = weights["decoder.embed_tokens.weight"]
    weights["encoder.embed_tokens.weight"] = shared if sharing == "all" else random(source_size, WIDTH)
    weights["decoder.output_projection.weight"] = random(target_size, WIDTH) if sharing == "none" else shared
    return weights


def write_folder(
    folder: Path,
    content: dict[str, Any],
    *,
    source: list[str] = SOURCE_PIECES,
    target: list[str] = TARGET_PIECES,
    codes: str = CODES,
    name: str = "model.pt",
    legacy: bool = False,
) -> Path:
    folder.mkdir()
    for code, pieces in (("de", source), ("en", target)):
        (folder / f"dict.{code}.txt").write_text("".join(f"{piece} {9 - n % 9}\n" for n, piece in enumerate(pieces)))
    (folder / "bpecodes").write_text(codes)
    torch.save(content, folder / name, _use_new_zipfile_serialization=not legacy)
    return folder


# --- the network, from the paper and fairseq's documentation ---------------------------------------------------------


def reference_logits(weights: dict[str, torch.Tensor], source: list[int], target_input: list[int]) -> torch.Tensor:
    """Compute the logits of one sentence pair; positions are counted from the padding's number, 1, plus 1."""
    memory = _embed(weights, "encoder", source)
    for number in range(LAYERS):
        layer = f"encoder.layers.{number}"
        memory = _norm(weights, f"{layer}.self_attn", memory + _attend(weights, f"{layer}.self_attn", memory, memory))
        memory = _feed_forward(weights, layer, memory)
    state = _embed(weights, "decoder", target_input)
    for number in range(LAYERS):
        layer = f"decoder.layers.{number}"
        looked = _attend(weights, f"{layer}.self_attn", state, state, causal=True)
        state = _norm(weights, f"{layer}.self_attn", state + looked)
        state = _norm(
            weights, f"{layer}.encoder_attn", state + _attend(weights, f"{layer}.encoder_attn", state, memory)
        )
        state = _feed_forward(weights, layer, state)
    return state @ weights["decoder.output_projection.weight"].T


def _embed(weights: dict[str, torch.Tensor], side: str, tokens: list[int]) -> torch.Tensor:
    rows = []
    for place, token in enumerate(tokens):
        half = WIDTH // 2
        angles = [(place + 2) * math.exp(-math.log(10000) * n / (half - 1)) for n in range(half)]
        position = torch.tensor([math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles])
        rows.append(weights[f"{side}.embed_tokens.weight"][token] * math.sqrt(WIDTH) + position)
    return torch.stack(rows)


def _linear(weights: dict[str, torch.Tensor], name: str, x: torch.Tensor) -> torch.Tensor:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _norm(weights: dict[str, torch.Tensor], name: str, x: torch.Tensor) -> torch.Tensor:
    centered = x - x.mean(-1, keepdim=True)
    scaled = centered / torch.sqrt((centered**2).mean(-1, keepdim=True) + 1e-5)
    return scaled * weights[f"{name}_layer_norm.weight"] + weights[f"{name}_layer_norm.bias"]


def _feed_forward(weights: dict[str, torch.Tensor], layer: str, x: torch.Tensor) -> torch.Tensor:
    inner = _linear(weights, f"{layer}.fc1", x).clamp(min=0)
    return _norm(weights, f"{layer}.final", x + _linear(weights, f"{layer}.fc2", inner))


def _attend(
    weights: dict[str, torch.Tensor], name: str, x: torch.Tensor, memory: torch.Tensor, *, causal: bool = False
) -> torch.Tensor:
    queries, keys, values = (
        _linear(weights, f"{name}.{part}_proj", from_) for part, from_ in (("q", x), ("k", memory), ("v", memory))
    )
    heads = []
    size = WIDTH // HEADS
    for head in range(HEADS):
        part = slice(head * size, (head + 1) * size)
        scores = queries[:, part] @ keys[:, part].T / math.sqrt(size)
        if causal:
            later = torch.arange(len(memory))[None] > torch.arange(len(x))[:, None]
            scores = scores.masked_fill(later, -math.inf)
        heads.append(torch.softmax(scores, -1) @ values[:, part])
    return _linear(weights, f"{name}.out_proj", torch.cat(heads, -1))
