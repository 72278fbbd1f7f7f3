"""The end of a decoder: where keys come from, and the way from one kind of key to another.

A key of kind ``out`` enters the output projection; one of kind ``ffn_in`` enters the feed-forward of the last decoder
layer (the choice of Khandelwal et al., 2021, in their own code, and of knn-transformers). Either is what a norm gives,
so either bears the mark of that norm's weights. Knows nothing of stores and projections.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers import M2M100Config, MBartConfig, MT5Config, PreTrainedModel, T5Config

from lacuna.errors import ModelError

# How far the mean square of an undone key may be from 1. In half precision it is off by less than 0.001; keys of the
# other kind were off by 0.4 or more with a trained model.
_TOLERANCE = 0.1
# Where a norm's weight is next to nothing, undoing it would only make rounding errors large.
_SMALL_WEIGHT = 1e-3


@dataclass(frozen=True, slots=True)
class LastLayer:
    """The last layer of a decoder.

    :param norms: The norm that makes the keys of each kind.
    :param layer: The layer, where its output is the decoder's (normalized last: Marian, FSMT, BART); otherwise None.
    """

    norms: dict[str, Any]
    layer: Any

    @classmethod
    def of(cls, hf: PreTrainedModel) -> LastLayer:
        """Find it in a model of a supported kind."""
        decoder: Any = hf.get_decoder()
        if isinstance(hf.config, T5Config | MT5Config):
            return cls({"out": decoder.final_layer_norm, "ffn_in": decoder.block[-1].layer[-1].layer_norm}, None)
        layer = decoder.layers[-1]
        if isinstance(hf.config, M2M100Config | MBartConfig):
            return cls({"out": decoder.layer_norm, "ffn_in": layer.final_layer_norm}, None)
        return cls({"out": layer.final_layer_norm, "ffn_in": layer.encoder_attn_layer_norm}, layer)

    def could_be(self, kind: str, keys: torch.Tensor) -> torch.Tensor:
        """Say of each key ``(rows, dimension)`` whether the norm of that kind could have given it: ``(rows,)``.

        With the norm's weight and bias undone, the squares of every key have a mean of 1.
        """
        norm = self.norms[kind]
        bias = getattr(norm, "bias", None)  # T5's norms have none
        shifted = keys.to(norm.weight.device, torch.float32)
        if bias is not None:
            shifted = shifted - bias.float()
        weight = norm.weight.float()
        usable = weight.abs() > _SMALL_WEIGHT * weight.abs().max()
        mean_square: torch.Tensor = (shifted[:, usable] / weight[usable]).square().mean(-1)
        return (mean_square - 1).abs() < _TOLERANCE

    def finish(self, keys: torch.Tensor, name: str) -> torch.Tensor:
        """Carry keys of kind ``ffn_in`` to ``out``, as the layer itself does: feed-forward, residual and norm."""
        if self.layer is None:
            raise ModelError(
                f"{name}: keys of kind ffn_in cannot be turned into keys of kind out, because this kind of model adds "
                "to the feed-forward what was there before its norm, which such keys do not hold; build the store anew"
            )
        layer = self.layer
        x = keys.to(layer.fc1.weight.device, layer.fc1.weight.dtype)
        finished: torch.Tensor = layer.final_layer_norm(x + layer.fc2(layer.activation_fn(layer.fc1(x))))
        return finished.float()
