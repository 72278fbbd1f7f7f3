"""The network that is trained: Hugging Face's Marian, so that any ``transformers`` user can load the result.

Knows how to make it, run it on a batch, and group its weights for the optimizer; not what the text says.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch.optim import AdamW
from transformers import MarianConfig, MarianMTModel

from lacuna.errors import TrainingError
from lacuna.models.training.data import Batch
from lacuna.models.training.loss import lexical_loss, smoothed_cross_entropy, summed_negative_log_likelihood
from lacuna.models.training.settings import Shape, TrainSettings
from lacuna.models.training.state import put_weights, trained_weights
from lacuna.models.training.vocabulary import Vocabulary, read_tables


def make_network(
    shape: Shape, vocabulary_size: int, end_id: int, pad_id: int, dropout: float, *, joint: bool = True
) -> MarianMTModel:
    """Return a network with fresh random weights, drawn from torch's generator.

    :param vocabulary_size: Rows of an embedding.
    :param joint: Whether source and target share one embedding; the decoder's is the output projection in any case.
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
        init_std=shape.dimension**-0.5,  # scaled embeddings then have the size of the positions added to them
        share_encoder_decoder_embeddings=joint,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end_id,
        forced_eos_token_id=None,
        pad_token_id=pad_id,
        decoder_start_token_id=pad_id,
    )
    network = MarianMTModel(config)
    _calm_residuals(network)
    network.config._attn_implementation = "sdpa"
    # What plain `generate` does for a user who says nothing; without a length it would stop at 20 tokens.
    network.generation_config.max_length = shape.max_positions
    network.generation_config.num_beams = 5
    return network


@torch.no_grad()
def _calm_residuals(network: MarianMTModel) -> None:
    """Start every layer close to passing on what it got (the scaling of GPT-2).

    Otherwise each attention, still even, mixes the sentence's mean into all positions, and by the last layer of the
    encoder they are nearly the same: a small model may then never find out that its source matters.
    """
    for side in (network.model.encoder, network.model.decoder):
        branches = [
            weight for name, weight in side.named_parameters() if name.endswith(("out_proj.weight", "fc2.weight"))
        ]
        for weight in branches:
            weight.mul_(len(branches) ** -0.5)


def run_network(network: MarianMTModel, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the states that enter the output projection, real target positions only, and the encoder's states."""
    output = network.model(
        input_ids=batch.source,
        attention_mask=batch.source_mask,
        decoder_input_ids=batch.target_input,
        use_cache=False,
    )
    states: torch.Tensor = output.last_hidden_state.flatten(0, 1).index_select(0, batch.target_places)
    return states, output.encoder_last_hidden_state


def batch_loss(network: MarianMTModel, batch: Batch, settings: TrainSettings) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (loss to minimize, negative log-likelihood), means over the batch's real target tokens."""
    states, encoded = run_network(network, batch)
    weight = network.lm_head.weight
    loss, likelihood = smoothed_cross_entropy(states, weight, batch.target, settings.label_smoothing)
    if settings.lexical_weight:
        owners = batch.target_places // batch.target_input.shape[1]
        loss = loss + settings.lexical_weight * lexical_loss(encoded, batch.source_mask, weight, batch.target, owners)
    return loss, likelihood


@torch.no_grad()
def batch_negative_log_likelihood(network: MarianMTModel, batch: Batch) -> float:
    """Return the plain loss of a batch, summed over its tokens."""
    return summed_negative_log_likelihood(run_network(network, batch)[0], network.lm_head.weight, batch.target)


def make_optimizer(network: MarianMTModel, settings: TrainSettings) -> AdamW:
    """Return Adam with the decay on matrices only: biases and norms have no scale to lose."""
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    groups = [
        {"params": [weight for weight in weights if weight.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [weight for weight in weights if weight.ndim < 2], "weight_decay": 0.0},
    ]
    return AdamW(groups, lr=settings.learning_rate, betas=(0.9, 0.98), eps=1e-8, fused=True)


def load_network(folder: Path) -> MarianMTModel:
    """Return the network of a Marian folder, ready to train; positions are a formula and stay as they are."""
    network = MarianMTModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    for name, weight in network.named_parameters():
        weight.requires_grad = "embed_positions" not in name
    return network


@torch.no_grad()
def transplant_weights(folder: Path, network: MarianMTModel, vocabulary: Vocabulary) -> int:
    """Copy the weights of another Marian folder of the same shape; return how many pieces kept their embedding.

    Pieces that the other vocabulary lacks keep their random start.
    """
    try:
        other = load_network(folder)
        known = read_tables(folder)
    except (OSError, ValueError) as error:
        raise TrainingError(f"{folder}: cannot start from it ({error}); name a Marian model folder") from error
    if len(known) != len(vocabulary.tables):
        raise TrainingError(
            f"{folder}: cannot start from it, for one of the two has joint and the other separate vocabularies; "
            "name another, or change --vocabularies"
        )
    theirs, mine = trained_weights(other), trained_weights(network)
    embeddings: dict[str, torch.Tensor] = {}
    kept = 0
    for name, ids, own in zip(_embedding_names(network), known, vocabulary.tables, strict=True):
        shared = [(number, ids[piece]) for piece, number in own.items() if piece in ids]
        own_rows, other_rows = map(torch.tensor, zip(*shared, strict=True))
        embeddings[name] = mine[name].clone()
        embeddings[name][own_rows] = theirs[name][other_rows]
        kept += len(shared)
    put_weights(network, theirs | embeddings)
    return kept


def _embedding_names(network: MarianMTModel) -> list[str]:
    """Name the embeddings: one for both sides, or the encoder's and the decoder's."""
    if network.config.share_encoder_decoder_embeddings:
        return ["model.shared.weight"]
    return ["model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"]
