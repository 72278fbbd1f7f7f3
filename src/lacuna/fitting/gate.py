"""Fit a gate, :mod:`lacuna.combiners.gate`: learn to predict the gain of a search, and choose its bounds on dev.

The network learns on one half of the dev sentences, and thresholds are set on the other. Bounds are tried from the
strictest to the loosest, until dev translations show no decline of BLEU.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from lacuna.artifacts.files import check_unused
from lacuna.artifacts.locks import alone
from lacuna.combiners import Combiner, SavedCombiner
from lacuna.combiners.gate import FOLDER as GATE_FOLDER
from lacuna.combiners.gate import Gate, GateManifest, Regions, gate_features, make_gate_network, save_gate
from lacuna.combiners.interpolation import gold_probability
from lacuna.datastore import Store
from lacuna.errors import CombinerError
from lacuna.evaluation import check_target_language, score_texts
from lacuna.fitting.dev_pass import DevSet
from lacuna.fitting.dev_texts import dev_references, dev_texts
from lacuna.fitting.token_cache import TokenCache, collect_dev
from lacuna.index.faiss import find_centroids
from lacuna.margin import read_margins
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair
from lacuna.translator import System
from lacuna.workers import WorkerPool, one_thread

# Beam thresholds to try, in nats, strictest first. Below 2, dev showed no decline, but BLEU of other texts fell now and
# then: the hypothesis that wins too often has a score gap of that size.
BEAM_THRESHOLDS = (2.0, 3.0, 5.0)
# Shares of the total gain of all searches that a threshold may lose, strictest first.
LOSSES = (0.08, 0.04, 0.02, 0.01, 0.005)
# The best of several gates on dev is a little worse on other texts, so a gate needs a larger p on dev than the usual
# 0.05.
_MIN_P = 0.25
# Predicting gains takes about as long as a tenth of the searches, so it has to save more than that.
_MIN_SAVING = 0.1

# The network and its training.
_STEPS = 400
_LEARNING_RATE = 0.01
_MAX_GAIN = 3.0  # nats; anything larger is worth a search as well

# Regions: k-means cells of the keys.
_REGIONS = 256
_ENTRIES_PER_REGION = 8
_SAMPLED_PER_REGION = 128
_KMEANS_ITERATIONS = 10

# Rows per block, to bound memory.
_ENTRY_BLOCK = 16_384
_TOKEN_BLOCK = 4096
_LOGIT_BLOCK = 512


@dataclass(frozen=True, eq=False, slots=True)
class GateTokens:
    """Dev tokens to learn from: features of the gate, gain of a search, and sentence of each."""

    features: torch.Tensor  # (tokens, features)
    gains: torch.Tensor  # (tokens,)
    sentences: torch.Tensor  # (tokens,)


@dataclass(frozen=True, slots=True)
class _GateTrial:
    """A gate and the dev translations with it.

    :param searched: Share of the decoding steps at which it searches.
    :param bleu: BLEU without the gate and with it.
    :param p_decline: p-value of the decline.
    :param lost: Share of the gain that its threshold may lose.
    """

    gate: Gate
    searched: float
    bleu: tuple[float, float]
    p_decline: float
    lost: float = 0.0


@alone("combiner", "gate")
def add_gate(
    model: Model,
    memories: Sequence[Memory],
    combiner: SavedCombiner,
    dev: DevSet | Iterable[SentencePair],
    *,
    translated: int = 500,
    seed: int = 1,
    progress: Progress = SILENT,
) -> GateManifest:
    """Fit a gate for a combiner and save it in the combiner's folder.

    :param dev: Held-out pairs; a :class:`DevSet` reuses its pass over the model.
    :param translated: Number of dev pairs, drawn at random, that are translated to measure BLEU.
    :raises CombinerError: Every gate lowers BLEU; none is saved.
    """
    dev = DevSet.of(dev)
    check_target_language(model.target_language)
    check_unused(Path(combiner.path) / GATE_FOLDER, CombinerError)
    regions = find_regions(memories, seed=seed, progress=progress)
    tokens = collect_gate_tokens(model, memories, combiner, regions, dev, progress=progress)
    learn, held_out = _halves(tokens, seed)
    gate = fit_gate(regions, tokens.features[learn], tokens.gains[learn], seed=seed)
    trials = _GateTrials(model, memories, combiner, dev.draw(translated, seed).pairs, progress)
    bounded = _first_harmless(trials.run(replace(gate, beam_threshold=bound)) for bound in BEAM_THRESHOLDS)
    base = gate if bounded is None else bounded.gate
    predicting = _first_harmless(
        trials.run(set_threshold(base, tokens.features[held_out], tokens.gains[held_out], loss), loss)
        for loss in LOSSES
    )
    chosen = _cheaper(bounded, predicting)
    if chosen is None:
        tried = len(BEAM_THRESHOLDS) + len(LOSSES)
        raise CombinerError(
            f"no gate: each of the {tried} tried lowers BLEU on dev (the worst to {trials.lowest:.2f}); "
            "the combiner is saved without a gate and searches at every step"
        )
    manifest = GateManifest(
        threshold=_finite(chosen.gate.threshold),
        reach=_finite(chosen.gate.beam_threshold),
        searched=chosen.searched,
        lost=chosen.lost,
        bleu=chosen.bleu,
        p_decline=chosen.p_decline,
        model=model.fingerprint,
        seed=seed,
    )
    return save_gate(chosen.gate, Path(combiner.path), manifest)


class _GateTrials:
    """Translates dev with gates and compares BLEU with translations without a gate."""

    def __init__(
        self,
        model: Model,
        memories: Sequence[Memory],
        combiner: SavedCombiner,
        pairs: Sequence[SentencePair],
        progress: Progress,
    ) -> None:
        self._model, self._memories, self._combiner, self._progress = model, memories, combiner, progress
        self._pairs, self._references = pairs, dev_references(model, pairs)
        self._ungated, _ = self._translate(None)
        self.lowest = torch.inf

    def run(self, gate: Gate, lost: float = 0.0) -> _GateTrial:
        """Translate with a gate and test the difference."""
        gated, searched = self._translate(gate)
        systems = [self._ungated, gated]
        without, with_gate = score_texts(self._references, systems, target_language=self._model.target_language)
        self.lowest = min(self.lowest, with_gate.bleu)
        return _GateTrial(gate, searched, (without.bleu, with_gate.bleu), with_gate.p_decline, lost)

    def _translate(self, gate: Gate | None) -> tuple[list[str], float]:
        translator = System(self._model, self._memories, self._combiner, gate=gate).open()
        texts = dev_texts(translator, self._pairs, progress=self._progress)
        count = translator.search_count
        return texts, count.searched / max(1, count.rows)


def _first_harmless(trials: Iterator[_GateTrial]) -> _GateTrial | None:
    """Return the first trial without a sign of a decline; later gates are not tried."""
    return next((trial for trial in trials if trial.p_decline >= _MIN_P), None)


def _cheaper(bounded: _GateTrial | None, predicting: _GateTrial | None) -> _GateTrial | None:
    """Choose between a gate with a beam threshold only and one that also predicts gains."""
    without = 1.0 if bounded is None else bounded.searched
    if predicting is not None and without - predicting.searched > _MIN_SAVING:
        return predicting
    return bounded or predicting


def _finite(bound: float) -> float | None:
    """Return a bound for JSON, which has no infinity: ``None`` stands for no bound."""
    return bound if abs(bound) < torch.inf else None


def _halves(tokens: GateTokens, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Split the tokens in two halves by sentence: rows of each."""
    count = int(tokens.sentences.max()) + 1
    chosen = torch.randperm(count, generator=torch.Generator().manual_seed(seed)) < count // 2
    first = chosen[tokens.sentences]
    return first.nonzero()[:, 0], (~first).nonzero()[:, 0]


def find_regions(memories: Sequence[Memory], *, seed: int, progress: Progress = SILENT) -> Regions:
    """Cluster the keys of the memories by k-means and describe the entries of each cell; needs measured margins."""
    stores = [memory.store for memory in memories]
    margins = [read_margins(store).values for store in stores]
    total = sum(store.entries for store in stores)
    count = max(1, min(_REGIONS, total // _ENTRIES_PER_REGION))
    rng = np.random.default_rng(seed)
    sample = np.concatenate(
        [_sample_keys(store, count * _SAMPLED_PER_REGION * store.entries // total, rng) for store in stores]
    )
    with one_thread():  # so few vectors are not worth splitting
        centers = find_centroids(sample, count, iterations=_KMEANS_ITERATIONS, seed=seed)
    sums = np.zeros((count, 3))
    progress.start("describe regions", total, "entries")
    pool = WorkerPool.of_process()
    for store, own in zip(stores, margins, strict=True):
        blocks = store.keys.blocks(_ENTRY_BLOCK)
        for first, nearest in pool.map(lambda block: (block[0], _nearest_center(block[1], centers)), blocks):
            part = slice(first, first + len(nearest))
            columns = (np.log1p(own[part].astype(np.float64)), ~store.known[part], np.ones(len(nearest)))
            for number, column in enumerate(columns):
                sums[:, number] += np.bincount(nearest, weights=column, minlength=count)
            progress.advance(len(nearest))
    progress.finish()
    traits = sums[:, :2] / np.maximum(sums[:, 2:], 1)
    return Regions(torch.from_numpy(centers), torch.from_numpy(traits.astype(np.float32)))


def _sample_keys(store: Store, count: int, rng: np.random.Generator) -> NDArray[np.float32]:
    rows = np.sort(rng.choice(store.entries, size=min(store.entries, max(1, count)), replace=False))
    return store.keys.gather(rows.astype(np.int64)).astype(np.float32)


def _nearest_center(keys: NDArray[np.float16], centers: NDArray[np.float32]) -> NDArray[np.int64]:
    # NumPy's BLAS shares one thread pool among all callers; torch's thread count is set for each thread.
    products = torch.from_numpy(keys.astype(np.float32)) @ torch.from_numpy(centers).T
    return np.asarray(((centers**2).sum(1) - 2 * products.numpy()).argmin(1), np.int64)


def collect_gate_tokens(
    model: Model,
    memories: Sequence[Memory],
    combiner: Combiner,
    regions: Regions,
    dev: DevSet,
    *,
    progress: Progress = SILENT,
) -> GateTokens:
    """Run the dev pass and compute features and gains of every dev token."""
    tokens = collect_dev(model, memories, dev, combiner.k, keep_queries=True, progress=progress)
    assert tokens.read_queries is not None
    read_queries = tokens.read_queries

    @torch.inference_mode()
    def features_of(rows: torch.Tensor) -> torch.Tensor:
        keys = read_queries(rows)
        log_p_best = model.project(keys).log_softmax(-1).amax(1)
        return gate_features(regions, keys.cpu(), log_p_best.cpu())

    pool = WorkerPool.of_process(model.device)
    features = list(pool.map(features_of, torch.arange(tokens.tokens).split(_LOGIT_BLOCK)))
    return GateTokens(torch.cat(features).clone(), search_gains(tokens, combiner), tokens.sentences)


def search_gains(tokens: TokenCache, combiner: Combiner) -> torch.Tensor:
    """Return how much more probable a search makes each right token, in nats: (tokens,)."""

    def gains_of(rows: torch.Tensor) -> torch.Tensor:
        mass = combiner.mass(tokens.neighbors(rows)).double()
        p_model = tokens.log_p_gold[rows].double().exp()
        p = gold_probability(p_model, mass, tokens.says_gold[rows])
        return (p.clamp(min=1e-30).log() - p_model.clamp(min=1e-30).log()).float()

    return torch.cat(list(WorkerPool.of_process().map(gains_of, torch.arange(tokens.tokens).split(_TOKEN_BLOCK))))


@one_thread()  # the network is tiny
def fit_gate(regions: Regions, features: torch.Tensor, gains: torch.Tensor, *, seed: int) -> Gate:
    """Train the network to predict gains. Without a threshold, the returned gate searches everywhere.

    :param features: From :func:`~lacuna.combiners.gate.gate_features`: (tokens, features).
    :param gains: From :func:`search_gains`: (tokens,).
    """
    mean, spread = features.mean(0), features.std(0).clamp(min=1e-6)
    targets = gains.clamp(-_MAX_GAIN, _MAX_GAIN)
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        network = make_gate_network()
    normalized = (features - mean) / spread
    optimizer = torch.optim.Adam(network.parameters(), lr=_LEARNING_RATE)
    for _ in range(_STEPS):
        optimizer.zero_grad()
        # Squared error fits the mean, not the median: a rare large gain is worth many searches.
        F.mse_loss(network(normalized)[:, 0], targets).backward()
        optimizer.step()
    return Gate(regions, network.requires_grad_(False).eval(), mean, spread)


def set_threshold(gate: Gate, features: torch.Tensor, gains: torch.Tensor, loss: float) -> Gate:
    """Return the gate with the highest threshold that loses at most a share of the total gain.

    :param features: Features of tokens that the network was not trained on.
    :param loss: That share, 0 to 1.
    """
    with torch.no_grad():
        predicted, order = gate.gains(features).sort()
    lost = gains[order].double().cumsum(0)
    allowed = loss * gains.double().sum().clamp(min=0)
    skipped = int((lost <= allowed).nonzero().max()) + 1 if bool((lost <= allowed).any()) else 0
    above_all = torch.nextafter(predicted[-1], predicted.new_tensor(torch.inf))  # where no search is needed
    threshold = float(predicted[skipped] if skipped < len(predicted) else above_all)
    return replace(gate, threshold=threshold)
