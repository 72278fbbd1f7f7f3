"""Fitting the combiners that learn, on tokens that were collected once. Pure torch: knows no models and no stores."""

from lacuna.combiners.fitting.adaptive import AdaptiveFit, fit_adaptive
from lacuna.combiners.fitting.cache import LOWEST_LOG_P, KeyReader, TokenCache
from lacuna.combiners.fitting.kster import KsterFit, fit_kster
from lacuna.combiners.fitting.loss import losses, perplexity

__all__ = [
    "LOWEST_LOG_P",
    "AdaptiveFit",
    "KeyReader",
    "KsterFit",
    "TokenCache",
    "fit_adaptive",
    "fit_kster",
    "losses",
    "perplexity",
]
