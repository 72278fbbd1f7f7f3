"""Teaching a gate to foretell what a search would gain, and where its threshold may lie. Knows no models, no stores."""

from __future__ import annotations

from dataclasses import replace

import torch

from lacuna.combiners.base import Combiner
from lacuna.combiners.fitting.cache import TokenCache
from lacuna.combiners.gate import Gate, Regions, make_gate_network

_STEPS = 400
_RATE = 0.01
# Gains beyond this many nats are all the same: worth a search.
_LARGEST_GAIN = 3.0
_TOKENS_AT_ONCE = 4096


def search_gains(tokens: TokenCache, combiner: Combiner) -> torch.Tensor:
    """Return how much more probable, in nats, the memories make each right token: (tokens,)."""
    parts = []
    for rows in torch.arange(tokens.tokens).split(_TOKENS_AT_ONCE):
        mass = combiner.mass(tokens.neighbors(rows)).double()
        p_model = tokens.log_p_gold[rows].double().exp()
        p = (1 - mass.sum(1)).clamp(min=0) * p_model + (mass * tokens.says_gold[rows]).sum(1)
        parts.append((p.clamp(min=1e-30).log() - p_model.clamp(min=1e-30).log()).float())
    return torch.cat(parts)


def fit_gate(regions: Regions, features: torch.Tensor, gains: torch.Tensor, *, seed: int) -> Gate:
    """Learn to foretell gains; the gate that comes of it wants every search, until it is given a threshold.

    :param features: From :func:`~lacuna.combiners.gate.gate_features`: (tokens, features).
    :param gains: From :func:`search_gains`: (tokens,).
    """
    mean, spread = features.mean(0), features.std(0).clamp(min=1e-6)
    wanted = gains.clamp(-_LARGEST_GAIN, _LARGEST_GAIN)
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        network = make_gate_network()
    normalized = (features - mean) / spread
    optimizer = torch.optim.Adam(network.parameters(), lr=_RATE)
    for _ in range(_STEPS):
        optimizer.zero_grad()
        # The mean, not the median: a rare large gain is worth many searches.
        torch.nn.functional.mse_loss(network(normalized)[:, 0], wanted).backward()
        optimizer.step()
    return Gate(regions, network.requires_grad_(False).eval(), mean, spread)


def set_threshold(gate: Gate, features: torch.Tensor, gains: torch.Tensor, loss: float) -> Gate:
    """Give a gate the highest threshold at which only a share of all that searches gain is lost.

    :param features: Of tokens that it has not learned from.
    :param loss: That share, 0 to 1.
    """
    with torch.no_grad():
        foretold, order = gate.gains(features).sort()
    lost = gains[order].double().cumsum(0)
    allowed = loss * gains.double().sum().clamp(min=0)
    skipped = int((lost <= allowed).nonzero().max()) + 1 if bool((lost <= allowed).any()) else 0
    above = torch.nextafter(foretold[-1], foretold.new_tensor(torch.inf))  # where nothing need be searched for
    threshold = float(foretold[skipped] if skipped < len(foretold) else above)
    return replace(gate, threshold=threshold)
