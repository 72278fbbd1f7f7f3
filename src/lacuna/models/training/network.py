"""The Marian network that is trained from scratch, and access to the trainable weights of any network.

Marian is a class of transformers, so any of its users can load the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn
from torch.optim import AdamW
from transformers import MarianConfig, MarianMTModel

from lacuna.errors import TrainingError
from lacuna.models.training.settings import Shape, TrainSettings
from lacuna.models.training.vocabulary import Vocabulary, read_tables


def make_network(
    shape: Shape, vocabulary_size: int, end_id: int, pad_id: int, dropout: float, *, joint: bool = True
) -> MarianMTModel:
    """Return a network with random weights, drawn from torch's global generator.

    :param vocabulary_size: Rows of an embedding.
    :param joint: Whether source and target share one embedding. The output projection is always tied to the decoder's.
    """
    config = MarianConfig(
        vocab_size=vocabulary_size,
        decoder_vocab_size=vocabulary_size,
        d_model=shape.dimension,
        encoder_layers=shape.encoder_layers,
        decoder_layers=shape.decoder_layers,
        encoder_ffn_dim=shape.feed_forward,
        decoder_ffn_dim=shape.feed_forward,
        encoder_attention_heads=shape.heads,
        decoder_attention_heads=shape.heads,
        max_position_embeddings=shape.max_positions,
        activation_function="relu",
        dropout=dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        scale_embedding=True,
        init_std=shape.dimension**-0.5,  # scaled embeddings then have the magnitude of the positions added to them
        share_encoder_decoder_embeddings=joint,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end_id,
        forced_eos_token_id=None,
        pad_token_id=pad_id,
        decoder_start_token_id=pad_id,
    )
    network = MarianMTModel(config)
    _scale_residuals(network)
    network.config._attn_implementation = "sdpa"
    # Defaults of transformers' generate(), which would otherwise stop at 20 tokens.
    network.generation_config.max_length = shape.max_positions
    network.generation_config.num_beams = 5
    return network


@torch.no_grad()
def _scale_residuals(network: MarianMTModel) -> None:
    """Scale down the output of every residual branch, as GPT-2 does, so that each layer starts close to the identity.

    Otherwise attention, which is still uniform, mixes the sentence's mean into all positions, and the states of the
    last encoder layer are nearly equal: a small model may then never learn to use its source.
    """
    for side in (network.model.encoder, network.model.decoder):
        branches = [
            weight for name, weight in side.named_parameters() if name.endswith(("out_proj.weight", "fc2.weight"))
        ]
        for weight in branches:
            weight.mul_(len(branches) ** -0.5)


def make_optimizer(network: MarianMTModel, settings: TrainSettings) -> AdamW:
    """Return AdamW with weight decay on matrices only, not on biases and norms."""
    weights = trained_weights(network).values()
    groups = [
        {"params": [weight for weight in weights if weight.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [weight for weight in weights if weight.ndim < 2], "weight_decay": 0.0},
    ]
    return AdamW(groups, lr=settings.learning_rate, betas=(0.9, 0.98), eps=1e-8, fused=True)


def load_network(folder: Path) -> MarianMTModel:
    """Return the network of a Marian folder, ready to train; its sinusoidal positions stay fixed."""
    network = MarianMTModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    for name, weight in network.named_parameters():
        weight.requires_grad = "embed_positions" not in name
    return network


@torch.no_grad()
def copy_weights(folder: Path, network: MarianMTModel, vocabulary: Vocabulary) -> None:
    """Copy the weights of another Marian folder of the same shape.

    Embeddings are copied by token; tokens that the other vocabulary lacks keep their random embedding.
    """
    try:
        other = load_network(folder)
        known = read_tables(folder)
    except (OSError, ValueError) as error:
        raise TrainingError(f"{folder}: cannot start from it ({error}); name a Marian model folder") from error
    if len(known) != len(vocabulary.tables):
        raise TrainingError(
            f"{folder}: cannot start from it, because only one of the two models has a joint vocabulary; "
            "name another, or change `vocabularies`"
        )
    theirs, mine = trained_weights(other), trained_weights(network)
    embeddings: dict[str, torch.Tensor] = {}
    for name, ids, own in zip(_embedding_names(network), known, vocabulary.tables, strict=True):
        shared = [(number, ids[piece]) for piece, number in own.items() if piece in ids]
        own_rows, other_rows = map(torch.tensor, zip(*shared, strict=True))
        embeddings[name] = mine[name].clone()
        embeddings[name][own_rows] = theirs[name][other_rows]
    put_weights(network, theirs | embeddings)


def _embedding_names(network: MarianMTModel) -> list[str]:
    """Return the names of the embeddings: one for both sides, or the encoder's and the decoder's."""
    if network.config.share_encoder_decoder_embeddings:
        return ["model.shared.weight"]
    return ["model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"]


def trained_weights(network: nn.Module) -> dict[str, torch.Tensor]:
    """Return the trainable weights, each once."""
    return {name: weight for name, weight in network.named_parameters() if weight.requires_grad}


def count_parameters(network: nn.Module) -> int:
    """Count the trainable parameters."""
    return sum(weight.numel() for weight in trained_weights(network).values())


@torch.no_grad()
def put_weights(network: nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Copy weights into a network, whose trainable weights must have the same names and shapes."""
    own = trained_weights(network)
    wrong = set(own) ^ set(weights) or {name for name in own if own[name].shape != weights[name].shape}
    if wrong:
        raise TrainingError(
            f"weights do not fit the network: {sorted(wrong)[0]} and {len(wrong) - 1} more differ; "
            "use the settings that the run was started with"
        )
    for name, weight in own.items():
        weight.copy_(weights[name])


def unfreeze(network: nn.Module) -> None:
    """Make all weights trainable except sinusoidal positions."""
    network.requires_grad_(True)
    for module in network.modules():
        if "Sinusoidal" in type(module).__name__:
            module.requires_grad_(False)


def set_dropout(network: nn.Module, dropout: float) -> None:
    """Set the dropout of every layer, except within attention and layer dropout, which are separate settings."""
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = dropout
        elif isinstance(getattr(module, "dropout", None), float) and "Attention" not in type(module).__name__:
            module.dropout = dropout  # type: ignore[assignment]
