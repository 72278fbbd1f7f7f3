"""How the neighbors of a query become probability: each combiner weighs them, one function mixes."""

from lacuna.combiners.base import Combiner, Neighbors, kernel_weights, mix_into, token_mass
from lacuna.combiners.vanilla import Vanilla

COMBINERS: dict[str, type[Combiner]] = {"vanilla": Vanilla}

__all__ = ["COMBINERS", "Combiner", "Neighbors", "Vanilla", "kernel_weights", "mix_into", "token_mass"]
