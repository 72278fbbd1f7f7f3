"""What beam search and scorers exchange."""

from __future__ import annotations

from collections.abc import Sequence
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

    def append(self, also: NDArray[np.int64], log_probs: NDArray[np.float32], banned: Sequence[int]) -> NextTokens:
        """Append other tokens as the last columns, with minus infinity where a token is none, banned, or there already.

        :param also: The other tokens, -1 for none: (rows, others).
        :param log_probs: Their log-probabilities: (rows, others).
        """
        present = (also[:, :, None] == self.tokens[:, None, :]) & (self.log_probs > -np.inf)[:, None, :]
        left_out = (also < 0) | np.isin(also, banned) | present.any(2)
        added = np.where(left_out, np.float32(-np.inf), log_probs)
        return NextTokens(
            np.concatenate([self.tokens, np.maximum(also, 0)], 1), np.concatenate([self.log_probs, added], 1)
        )
