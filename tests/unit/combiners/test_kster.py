"""KSTER: masses against a naive computation, and its laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lacuna.combiners import Kster, Neighbors
from lacuna.errors import SettingError
from unit.combiners.neighborhoods import DIMENSION, VOCABULARY, make_neighbors, mix_densely, neighborhoods, one_query

KERNELS = st.sampled_from(["laplacian", "gaussian"])


def new(k: int, kernel: str, seed: int) -> Kster:
    torch.manual_seed(seed)
    combiner = Kster(DIMENSION, k, kernel)
    combiner.network.double()
    return combiner


def naive_mass(combiner: Kster, found: Neighbors) -> np.ndarray:
    weights = {name: weight.numpy() for name, weight in combiner.network.state_dict().items()}
    keys, queries = found.read_keys().numpy(), found.queries.numpy()
    result = np.zeros(found.values.shape)
    for row in range(len(result)):
        present = np.flatnonzero(found.values[row].numpy() >= 0)
        if not len(present):
            continue
        seen = np.concatenate([queries[row], keys[row, present].mean(0)])
        bandwidth = math.exp(float((weights["log_bandwidth.weight"] @ seen + weights["log_bandwidth.bias"])[0]))
        far = found.distances[row].numpy()[present]
        scores = np.exp(-(np.sqrt(far) if combiner.kernel == "laplacian" else far) / bandwidth)
        if found.log_weights is not None:
            scores = scores * np.exp(found.log_weights[row].numpy()[present])
        share = scores / scores.sum()
        seen = np.concatenate([queries[row], share @ keys[row, present]])
        hidden = np.maximum(weights["knn_logit.0.weight"] @ seen + weights["knn_logit.0.bias"], 0)
        logit = float((weights["knn_logit.2.weight"] @ hidden + weights["knn_logit.2.bias"])[0])
        result[row, present] = share / (1 + math.exp(-logit))
    return result


@given(neighborhoods, KERNELS, st.integers(0, 100))
def test_mass_equals_a_naive_computation(found: Neighbors, kernel: str, seed: int) -> None:
    combiner = new(found.values.shape[1], kernel, seed)
    np.testing.assert_allclose(combiner.mass(found).numpy(), naive_mass(combiner, found), atol=1e-12)


@given(neighborhoods, KERNELS, st.integers(0, 100))
def test_masses_and_the_models_share_sum_to_one(found: Neighbors, kernel: str, seed: int) -> None:
    with torch.no_grad():
        weighing = new(found.values.shape[1], kernel, seed).weigh(found)
    assert (weighing.mass >= 0).all()
    torch.testing.assert_close(
        weighing.mass.sum(1) + weighing.log_model_share.exp(), torch.ones(len(found.values)).double()
    )


@given(neighborhoods, KERNELS)
def test_no_weight_leaves_every_bit_of_the_model(found: Neighbors, kernel: str) -> None:
    log_probs = torch.randn(len(found.values), VOCABULARY, dtype=torch.float64).log_softmax(-1)
    combiner = new(found.values.shape[1], kernel, 1)
    with torch.no_grad():
        combiner.network.knn_logit[2].bias -= 10_000
    assert torch.equal(mix_densely(log_probs, combiner.mass(found), found.values), log_probs)


@pytest.mark.parametrize(("kernel", "expected"), [("laplacian", math.exp(0.6)), ("gaussian", math.exp(0.64))])
def test_first_bandwidth_is_the_papers(kernel: str, expected: float) -> None:
    combiner = new(2, kernel, 1)
    with torch.no_grad():
        combiner.network.log_bandwidth.weight.zero_()
    # Laplacian: (8 - 2) / 10; Gaussian: (68 - 4) / 100
    far = torch.tensor([[4.0, 64.0 if kernel == "laplacian" else 68.0]]).double()
    keys = torch.zeros(1, 2, DIMENSION).double()
    mass = combiner.mass(Neighbors(far, torch.tensor([[3, 4]]), None, keys[:, 0], lambda: keys))
    assert float(mass[0, 0] / mass[0, 1]) == pytest.approx(expected)


def test_batch_equals_single() -> None:
    found, combiner = make_neighbors(3, 20, 4, weights=True), new(4, "laplacian", 3)
    together = combiner.mass(found)
    for row in range(20):
        torch.testing.assert_close(combiner.mass(one_query(found, row))[0], together[row])


def test_queries_are_needed() -> None:
    with pytest.raises(LookupError, match="queries"):
        Kster(DIMENSION).mass(Neighbors(torch.zeros(1, 16), torch.zeros(1, 16, dtype=torch.long)))


@pytest.mark.parametrize(
    ("settings", "says"),
    [({"k": 0}, "k: got 0"), ({"kernel": "box"}, "laplacian, gaussian"), ({"dimension": 0}, "dimension: got 0")],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        Kster(**{"dimension": 4} | settings)  # type: ignore[arg-type]
