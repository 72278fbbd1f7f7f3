"""Encoder, decoder and output projection by compiled kernels, for the families with BART-like layers, on a CPU.

All rows of a search share one KV cache, which has a *slot* for each decoded token. A row is a list of slots: selecting
rows copies these lists, not keys and values, and rows of different lengths and sources need no padding. Knows nothing
of beams.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.kernels import load_kernels
from lacuna.models.adapter import Model
from lacuna.models.fast_decoder import LAYOUTS, Layout, is_plain, position_table
from lacuna.models.packed_weights import PackedWeights, cached_file, open_packed, pack_model, save_packed
from lacuna.models.teacher_forcing import TeacherForced

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

# Kernels by the name of the activation in a model's configuration.
_ACTIVATIONS = {"relu": "RELU", "silu": "SILU", "swish": "SILU", "gelu": "GELU"}
_FIRST_SLOTS = 256
# Bytes in a part of the output projection that is worth a thread: handing it over takes some 50 microseconds.
_WORTH_A_THREAD = 1 << 23


class LikelyTokens(NamedTuple):
    """The most probable next tokens of some rows, most probable first.

    :param tokens: (rows, count).
    :param logits: (rows, count).
    :param log_sums: Log of the sum of the exponentials of all logits: (rows,).
    """

    tokens: Integers
    logits: Floats
    log_sums: NDArray[np.float64]

    @property
    def log_probs(self) -> Floats:
        """Log-probabilities of the tokens: (rows, count)."""
        return relative(self.logits, self.log_sums)


def relative(logits: Floats, log_sums: NDArray[np.float64]) -> Floats:
    """Turn logits into log-probabilities; in float64, since the log-probability of a likely token is near 0."""
    return (logits - log_sums[:, None]).astype(np.float32)


class CompiledModel:
    """Packed weights of a model, shared by all searches with it.

    :param kernels: :mod:`lacuna.kernels.compiled`.
    """

    def __init__(self, packed: PackedWeights, kernels: Any) -> None:  # noqa: ANN401
        self._kernels = kernels
        self._encoder, self._decoder = (packed.layers(stack, kernels) for stack in ("encoder", "decoder"))
        self._encoder_tables, self._decoder_tables = (packed.tables(stack, kernels) for stack in ("encoder", "decoder"))
        self._head, self._vocabulary, self._exact = packed.head(kernels), packed.settings.vocabulary, packed.exact
        self._correcting = self._exact if packed.settings.precision != "float32" else self._exact[:0]
        self._forces = packed.settings.precision == "bfloat16"  # others run teacher forcing in torch
        self.cache_shape = len(self._decoder.norms), 2, 0, self._exact.shape[1]

    @classmethod
    def of(cls, model: Model, precision: str = "float32") -> CompiledModel | None:
        """Return the packed weights that all users of a model share; ``None`` if the kernels cannot run it.

        :param precision: ``float32``, ``bfloat16`` or ``int8``; see :data:`~lacuna.models.packed_weights.PRECISIONS`.
        """
        return model.prepared(f"compiled, {precision}", partial(cls.prepare, model, precision))

    @classmethod
    def prepare(cls, model: Model, precision: str = "float32") -> CompiledModel | None:
        """Pack the weights of a model, or open those in the cache; see :meth:`of`."""
        kernels = load_kernels()
        if kernels is None or model.device.type != "cpu":
            return None
        # The model itself is only looked at if there is nothing in the cache: looking at it loads it.
        path = cached_file(model.fingerprint, precision, kernels.COLUMNS) if precision == "int8" else None
        packed = None if path is None else open_packed(path, model.fingerprint)
        if packed is None:
            layout = _supported(model)
            if layout is None or find_obstacle(model, precision) is not None:
                return None
            activation = getattr(kernels, _ACTIVATIONS[model.hf.config.activation_function])
            packed = pack_model(
                model.hf,
                model.projection,
                layout,
                activation,
                kernels,
                fingerprint=model.fingerprint,
                precision=precision,
            )
            if path is not None:
                save_packed(packed, path)
                packed = open_packed(path, model.fingerprint) or packed  # the memory of the arrays is free again
        with kernels.announced(precision) as is_new:
            if is_new:
                from lacuna.models.kernel_compiling import compile_elsewhere

                compile_elsewhere(precision)
            compiled = cls(packed, kernels)
            compiled.run_once(model.start_ids)
        return compiled

    def run_once(self, start_ids: Sequence[int]) -> None:
        """Run all kernels, so that they are read or compiled now instead of during the first translation."""
        keys = CompiledCache(self, [[0]]).begin(start_ids).numpy()
        likely = self.find_next(keys, 1, np.empty(0, np.int64))
        self.logits_of(keys, likely.tokens)
        if self._forces:
            self.score_gold(self.force([[0]], [[0]]), np.zeros(1, np.int64))

    def encode(self, sources: Sequence[Sequence[int]]) -> tuple[Floats, Integers]:
        """Run the encoder; return keys and values of cross-attention, and where each source starts and ends in them."""
        tokens, positions, ends = _joined(sources)
        source: Floats = self._kernels.encode(
            tokens, positions, ends, self._encoder_tables, self._encoder, self._decoder
        )
        return source, np.stack([ends[:-1], ends[1:]], 1)

    def decode(self, tokens: Integers, hypotheses: Any, cache: Floats, source: Floats) -> Floats:  # noqa: ANN401 - of numba
        """Run the decoder for the last token of each row; see :func:`lacuna.kernels.layers.decode`."""
        states: Floats = self._kernels.decode(tokens, hypotheses, self._decoder_tables, self._decoder, cache, source)
        return states

    def force(self, sources: Sequence[Sequence[int]], inputs: Sequence[Sequence[int]]) -> Floats:
        """Run the decoder over whole translations; return the states of all tokens: (tokens, width).

        :param inputs: Tokens that the decoder reads, for each source.
        """
        source, places = self.encode(sources)
        source_starts = np.append(places[:, 0], source.shape[2])
        states: Floats = self._kernels.force(
            *_joined(inputs), self._decoder_tables, self._decoder, source, source_starts
        )
        return states

    def teacher_force(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], start_ids: Sequence[int]
    ) -> TeacherForced:
        """Return what :meth:`~lacuna.models.Model.teacher_force` does, which has checked the tokens.

        :param start_ids: Tokens that every translation starts with; only the last of them has an output.
        """
        lengths = tuple(map(len, targets))
        inputs = [[*start_ids, *target[:-1]] for target in targets]
        _, positions, ends = _joined(inputs)
        first = len(start_ids) - 1
        wanted = (positions >= first) & (positions < np.repeat(np.array(lengths) + first, np.diff(ends)))
        keys = self.force(sources, inputs)[wanted]
        gold = np.fromiter((token for target in targets for token in target), np.int64, len(keys))
        predictions, log_p_gold, entropy = map(torch.from_numpy, self.score_gold(keys, gold))
        return TeacherForced(torch.from_numpy(keys), predictions, log_p_gold, entropy, lengths)

    def score_gold(self, keys: Floats, gold: Integers) -> tuple[Integers, Floats, Floats]:
        """Return prediction, log-probability of the gold token and entropy for each key: (rows,) each."""
        rows = len(keys)
        scores = np.empty(rows, np.int64), np.empty(rows, np.float32), np.empty(rows, np.float32)
        self._kernels.score_gold(keys, self._head, self._vocabulary, self._correcting, gold, *scores)
        return scores

    def find_next(self, keys: Floats, count: int, banned: Integers) -> LikelyTokens:
        """Return the most probable next tokens.

        :param banned: Tokens that are left out, but keep their share of the probability.
        """
        weight = self._head.weight
        parts = max(1, min(torch.get_num_threads(), weight.nbytes // _WORTH_A_THREAD))
        if parts == 1:
            return self._find_next(keys, count, banned, 0, len(weight))
        first, *rest = pairwise(np.linspace(0, len(weight), parts + 1).astype(int).tolist())
        others = [_threads(parts - 1).submit(self._find_next, keys, count, banned, *part) for part in rest]
        return _merge([self._find_next(keys, count, banned, *first), *(other.result() for other in others)], count)

    def _find_next(self, keys: Floats, count: int, banned: Integers, start: int, end: int) -> LikelyTokens:
        """Search some blocks of the projection."""
        kernels, (weight, units, bias) = self._kernels, self._head
        columns = slice(start * kernels.COLUMNS, end * kernels.COLUMNS)
        head = kernels.PackedLinear(weight[start:end], units[columns], bias[columns])
        likely = LikelyTokens(
            np.empty((len(keys), count), np.int64), np.empty((len(keys), count), np.float32), np.empty(len(keys))
        )
        kernels.find_next(keys, head, columns.start, self._vocabulary, self._correcting, banned, *likely)
        return likely

    def logits_of(self, keys: Floats, tokens: Integers) -> Floats:
        """Return the logits of given tokens, in float32; minus infinity for negative ones: (rows, tokens)."""
        logits = np.empty(tokens.shape, np.float32)
        self._kernels.score_tokens(keys, self._exact, self._head.bias, tokens, logits)
        return logits


class CompiledCache:
    """KV cache of a :class:`CompiledModel`, for all rows."""

    def __init__(self, model: CompiledModel, sources: Sequence[Sequence[int]]) -> None:
        self._model, self._kernels = model, model._kernels
        self._source, places = model.encode(sources)  # (layers, 2, tokens, width), (rows, 2)
        self._cache = np.empty(model.cache_shape, np.float32)  # (layers, 2, slots, width)
        self._free = np.empty(0, np.int64)  # slots that no row uses
        empty = np.zeros((len(sources), 0), np.int64), np.zeros(len(sources), np.int64)
        self._rows = self._kernels.Hypotheses(*empty, places)

    def begin(self, start_ids: Sequence[int]) -> torch.Tensor:
        """Decode the forced start, one row per sentence; return the keys."""
        same = torch.arange(len(self._rows.lengths))
        steps = [self.step(same, torch.full_like(same, token)) for token in start_ids]
        return steps[-1]

    def join(self, other: CompiledCache) -> None:
        """Append the rows of another cache."""
        self._drop_sources()
        moved = other._used_slots(np.arange(len(other._rows.lengths)))
        taken = self._take(len(moved), np.arange(len(self._rows.lengths)))
        self._cache[:, :, taken] = other._cache[:, :, moved]
        places = np.zeros(other._cache.shape[2], np.int64)
        places[moved] = taken
        slots, lengths, source_places = self._rows
        width = max(slots.shape[1], other._rows.slots.shape[1])
        self._rows = self._kernels.Hypotheses(
            np.concatenate([_widened(slots, width), _widened(places[other._rows.slots], width)]),
            np.concatenate([lengths, other._rows.lengths]),
            np.concatenate([source_places, other._rows.source_places + self._source.shape[2]]),
        )
        self._source = np.concatenate([self._source, other._source], axis=2)

    def step(self, rows: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Append ``tokens`` to ``rows``; return the keys."""
        chosen = rows.numpy()
        taken = self._take(len(chosen), chosen)
        # Zeros beyond the length of a row: a slot that exists.
        slots = np.zeros((len(chosen), int(self._rows.lengths.max()) + 1), np.int64)
        extended = self._kernels.Hypotheses(
            slots, np.empty(len(chosen), np.int64), np.empty((len(chosen), 2), np.int64)
        )
        self._kernels.advance(self._rows, chosen, taken, extended)
        self._rows = extended
        return torch.from_numpy(self._model.decode(tokens.numpy(), extended, self._cache, self._source))

    def _take(self, count: int, rows: Integers) -> Integers:
        """Take free slots; if there are too few, free those that none of some rows uses, or extend the cache."""
        if len(self._free) < count:
            size = self._cache.shape[2]
            used = np.zeros(size, np.bool_)
            used[self._used_slots(rows)] = True
            self._free = np.flatnonzero(~used)
            if len(self._free) < max(count, size // 4):
                # Often enough to be rare: new memory is slow, since the system clears its pages.
                more = np.empty(
                    (*self._cache.shape[:2], 2 * size + 2 * count + _FIRST_SLOTS, *self._cache.shape[3:]), np.float32
                )
                more[:, :, :size] = self._cache
                self._free = np.concatenate([self._free, np.arange(size, more.shape[2])])
                self._cache = more
        taken, self._free = self._free[:count], self._free[count:]
        return taken

    def _used_slots(self, rows: Integers) -> Integers:
        """Return the slots of some rows."""
        chosen = np.unique(rows)
        slots, lengths = self._rows.slots[chosen], self._rows.lengths[chosen]
        used: Integers = np.unique(slots[np.arange(slots.shape[1]) < lengths[:, None]])
        return used

    def _drop_sources(self) -> None:
        """Drop the sources of sentences that have ended."""
        places, rows = np.unique(self._rows.source_places, axis=0, return_inverse=True)
        lengths = places[:, 1] - places[:, 0]
        if int(lengths.sum()) < self._source.shape[2]:
            kept = np.concatenate([np.arange(start, end) for start, end in places.tolist()])
            self._source = np.ascontiguousarray(self._source[:, :, kept])
            ends = np.cumsum(lengths)
            self._rows = self._rows._replace(source_places=np.stack([ends - lengths, ends], 1)[rows.ravel()])


def find_obstacle(model: Model, precision: str) -> str | None:
    """Return what compiled kernels need to run a model in a precision and do not have here; ``None`` if they can."""
    kernels = load_kernels()
    if model.device.type != "cpu":
        return "a CPU"
    if kernels is None:
        return "numba (pip install lacuna-mt[fast])"
    if not kernels.supports(precision):
        return "a processor with AVX-512 BF16"
    if _supported(model) is None or (precision != "float32" and _has_odd_inputs(model)):
        return "a model with BART-like layers (Marian, FSMT, BART, mBART, M2M100, NLLB)"
    return None


def _supported(model: Model) -> Layout | None:
    """Return the layout of a model that the kernels can run."""
    layout = LAYOUTS.get(model.facts.model_type)
    if layout is None:
        return None
    hf = model.hf
    if hf.config.activation_function not in _ACTIVATIONS or model.projection.scale != 1:
        return None
    if any(weight.device.type != "cpu" or weight.dtype != torch.float32 for weight in hf.parameters()):
        return None
    # See FastDecoder.prepare.
    stacks = (hf.model.encoder, hf.model.decoder)
    plain = all(is_plain(module) for stack in stacks for module in stack.layers.modules())
    longest = hf.config.max_position_embeddings
    fitting = all(len(position_table(stack)) >= layout.first_position(stack) + longest for stack in stacks)
    return layout if plain and fitting else None


def _has_odd_inputs(model: Model) -> bool:
    """Return whether a layer has an odd number of inputs; rounded inputs are multiplied in pairs."""
    linears = (module for module in model.hf.modules() if isinstance(module, torch.nn.Linear))
    return any(linear.in_features % 2 for linear in linears)


def _joined(sentences: Sequence[Sequence[int]]) -> tuple[Integers, Integers, Integers]:
    """Return the tokens of all sentences one after the other, their positions, and where each sentence starts."""
    ends = np.cumsum([0, *map(len, sentences)])
    tokens = np.fromiter((token for sentence in sentences for token in sentence), np.int64, int(ends[-1]))
    return tokens, np.arange(len(tokens)) - np.repeat(ends[:-1], np.diff(ends)), ends


def _merge(parts: Sequence[LikelyTokens], count: int) -> LikelyTokens:
    """Merge what was found in parts of the vocabulary, which are in order."""
    tokens, logits = (np.concatenate([part[number] for part in parts], axis=1) for number in (0, 1))
    best = np.argsort(-logits, axis=1, kind="stable")[:, :count]
    log_sums = np.logaddexp.reduce([part.log_sums for part in parts])
    return LikelyTokens(np.take_along_axis(tokens, best, 1), np.take_along_axis(logits, best, 1), log_sums)


def _widened(slots: Integers, width: int) -> Integers:
    """Copy lists of slots into longer ones."""
    wide = np.zeros((len(slots), width), np.int64)
    wide[:, : slots.shape[1]] = slots
    return wide


@cache
def _threads(count: int) -> ThreadPoolExecutor:
    """Return threads that all models share."""
    return ThreadPoolExecutor(count, "lacuna-projection")
