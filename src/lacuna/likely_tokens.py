"""What beam search and scorers exchange."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class NextTokens(NamedTuple):
    """The most probable next tokens of some hypotheses, most probable first.

    :param tokens: (rows, count).
    :param log_probs: Natural log-probabilities; minus infinity where a row has no such token: (rows, count).
    """

    tokens: NDArray[np.int64]
    log_probs: NDArray[np.float32]
