"""Teaching a gate to foretell what a search would gain, and where its threshold may lie. Knows no models, no stores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import faiss
import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.combiners import Combiner, SavedCombiner
from lacuna.combiners.gate import FOLDER as GATE_FOLDER
from lacuna.combiners.gate import Gate, GateManifest, Regions, gate_features, make_gate_network, save_gate
from lacuna.corpora import draw_pairs
from lacuna.datastore import Store
from lacuna.errors import CombinerError
from lacuna.evaluation import evaluate_systems
from lacuna.files import check_unused
from lacuna.fitting.dev_pass import collect_dev
from lacuna.fitting.objective import TokenCache
from lacuna.margin import read_margins
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair
from lacuna.translator import Memory, Translator

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


_REGIONS = 256
_DRAWN_PER_REGION = 128
_ROWS_AT_ONCE = 16_384


@dataclass(frozen=True, eq=False, slots=True)
class GateTokens:
    """Dev tokens: what a gate sees of each, what a search gains, and the sentence it is of."""

    features: torch.Tensor  # (tokens, features)
    gains: torch.Tensor  # (tokens,)
    sentences: torch.Tensor  # (tokens,)


def find_regions(memories: Sequence[Memory], *, seed: int, progress: Progress = SILENT) -> Regions:
    """Cut the keys of the memories into regions, and describe the entries of each; margins must have been measured."""
    stores = [memory.store for memory in memories]
    margins = [read_margins(store).values for store in stores]
    total = sum(store.entries for store in stores)
    count = max(1, min(_REGIONS, total // 8))
    rng = np.random.default_rng(seed)
    drawn = np.concatenate([_draw(store, count * _DRAWN_PER_REGION * store.entries // total, rng) for store in stores])
    kmeans = faiss.Kmeans(drawn.shape[1], count, niter=10, seed=seed, min_points_per_centroid=1)
    kmeans.train(drawn)
    centers = np.asarray(kmeans.centroids, np.float32)
    sums = np.zeros((count, 3))
    progress.start("describe regions", total, "entries")
    for store, own in zip(stores, margins, strict=True):
        for first, block in store.keys.blocks(_ROWS_AT_ONCE):
            part = slice(first, first + len(block))
            nearest = _nearest(block.astype(np.float32), centers)
            columns = (np.log1p(own[part].astype(np.float64)), ~store.known[part], np.ones(len(block)))
            for place, column in enumerate(columns):
                sums[:, place] += np.bincount(nearest, weights=column, minlength=count)
            progress.advance(len(block))
    progress.finish()
    traits = sums[:, :2] / np.maximum(sums[:, 2:], 1)
    return Regions(torch.from_numpy(centers), torch.from_numpy(traits.astype(np.float32)))


def collect_gate_tokens(
    model: Model,
    memories: Sequence[Memory],
    combiner: Combiner,
    regions: Regions,
    pairs: Sequence[SentencePair],
    *,
    progress: Progress = SILENT,
) -> GateTokens:
    """Read a dev set through the model and the memories."""
    tokens = collect_dev(model, memories, pairs, combiner.k, keep_queries=True, progress=progress)
    assert tokens.read_queries is not None
    features = []
    with torch.inference_mode():
        for rows in torch.arange(tokens.tokens).split(512):
            keys = tokens.read_queries(rows)
            log_p_best = model.project(keys).log_softmax(-1).amax(1)
            features.append(gate_features(regions, keys.cpu(), log_p_best.cpu()))
    return GateTokens(torch.cat(features).clone(), search_gains(tokens, combiner), tokens.sentences)


def _draw(store: Store, count: int, rng: np.random.Generator) -> NDArray[np.float32]:
    rows = np.sort(rng.choice(store.entries, size=min(store.entries, max(1, count)), replace=False))
    return store.keys.gather(rows.astype(np.int64)).astype(np.float32)


def _nearest(keys: NDArray[np.float32], centers: NDArray[np.float32]) -> NDArray[np.int64]:
    products = (centers**2).sum(1) - 2 * keys @ centers.T
    return np.asarray(products.argmin(1), np.int64)


# How many nats a translation may be behind the best of its sentence, boldest first. Less than two passed on dev, but on
# other texts BLEU fell now and then: the translation that wins is too often that far behind.
REACHES = (2.0, 3.0, 5.0)
# Shares of what all searches gain that a gate may lose, boldest first.
LOSSES = (0.08, 0.04, 0.02, 0.01, 0.005)
# The best of several gates on dev is a little worse elsewhere: what is to be no significant decline there must not look
# like one here.
_LEAST_P = 0.25
# Foretelling gains takes about as long as a tenth of the searches, so it has to spare more than that.
_WORTH_FORETELLING = 0.1


@dataclass(frozen=True, slots=True)
class _GateTrial:
    """A gate, and what became of dev with it.

    :param searched: The share of steps that it searched at.
    :param lost: The share of gains that its threshold may lose.
    """

    gate: Gate
    searched: float
    bleu: tuple[float, float]
    p_decline: float
    lost: float = 0.0


class _GateJudge:
    """Translates dev with a gate and compares with what comes without one."""

    def __init__(
        self,
        model: Model,
        memories: Sequence[Memory],
        combiner: SavedCombiner,
        pairs: Sequence[SentencePair],
        progress: Progress,
    ) -> None:
        self._model, self._memories, self._combiner, self._progress = model, memories, combiner, progress
        self._sources, self._references = [pair.source for pair in pairs], [pair.target for pair in pairs]
        self._always, _ = self._translate(None)
        self.lowest = torch.inf

    def try_out(self, gate: Gate, lost: float = 0.0) -> _GateTrial:
        """Translate with a gate."""
        gated, searched = self._translate(gate)
        without, with_gate = evaluate_systems(self._references, {"always": self._always, "gated": gated})
        self.lowest = min(self.lowest, with_gate.bleu.value)
        p = 1.0 if with_gate.p_decline is None else with_gate.p_decline
        return _GateTrial(gate, searched, (without.bleu.value, with_gate.bleu.value), p, lost)

    def _translate(self, gate: Gate | None) -> tuple[list[str], float]:
        translator = Translator(self._model, self._memories, self._combiner, gate=gate)
        results = translator.translate(self._sources, progress=self._progress)
        count = translator.search_count
        return [result.text for result in results], count.searched / max(1, count.rows)


def add_gate(
    model: Model,
    memories: Sequence[Memory],
    combiner: SavedCombiner,
    pairs: Sequence[SentencePair],
    *,
    translated: int = 500,
    seed: int = 1,
    progress: Progress = SILENT,
) -> GateManifest:
    """Fit a gate for a combiner and save it in the combiner's folder.

    :param pairs: The dev set.
    :param translated: At most so many pairs of it are translated for BLEU.
    :raises CombinerError: Every gate costs BLEU; then none is saved.
    """
    check_unused(Path(combiner.path) / GATE_FOLDER, CombinerError)
    regions = find_regions(memories, seed=seed, progress=progress)
    tokens = collect_gate_tokens(model, memories, combiner, regions, pairs, progress=progress)
    learn, held_out = _halves(tokens, seed)
    gate = fit_gate(regions, tokens.features[learn], tokens.gains[learn], seed=seed)
    judge = _GateJudge(model, memories, combiner, draw_pairs(pairs, translated, seed), progress)
    reaching = _first_harmless(judge.try_out(replace(gate, reach=reach)) for reach in REACHES)
    near = gate if reaching is None else reaching.gate
    foretelling = _first_harmless(
        judge.try_out(set_threshold(near, tokens.features[held_out], tokens.gains[held_out], loss), loss)
        for loss in LOSSES
    )
    chosen = _quicker(reaching, foretelling)
    if chosen is None:
        tried = len(REACHES) + len(LOSSES)
        raise CombinerError(
            f"no gate: each of {tried} seems to lower the BLEU of dev (one to {judge.lowest:.2f}); "
            "the combiner is saved without one, and searches at every step"
        )
    manifest = GateManifest(
        threshold=_finite(chosen.gate.threshold),
        reach=_finite(chosen.gate.reach),
        searched=chosen.searched,
        lost=chosen.lost,
        bleu=chosen.bleu,
        p_decline=chosen.p_decline,
        model=model.fingerprint,
        seed=seed,
    )
    return save_gate(chosen.gate, Path(combiner.path), manifest)


def _first_harmless(trials: Iterator[_GateTrial]) -> _GateTrial | None:
    """Try gates until one does not seem to lower BLEU."""
    return next((trial for trial in trials if trial.p_decline >= _LEAST_P), None)


def _quicker(reaching: _GateTrial | None, foretelling: _GateTrial | None) -> _GateTrial | None:
    """Choose between a gate that only looks how far behind a translation is, and one that also foretells gains."""
    without = 1.0 if reaching is None else reaching.searched
    if foretelling is not None and without - foretelling.searched > _WORTH_FORETELLING:
        return foretelling
    return reaching or foretelling


def _finite(bound: float) -> float | None:
    """Give a bound as JSON can hold it: ``None`` where there is none."""
    return bound if abs(bound) < torch.inf else None


def _halves(tokens: GateTokens, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cut the tokens in two, by sentence."""
    count = int(tokens.sentences.max()) + 1
    chosen = torch.randperm(count, generator=torch.Generator().manual_seed(seed)) < count // 2
    mine = chosen[tokens.sentences]
    return mine.nonzero()[:, 0], (~mine).nonzero()[:, 0]
