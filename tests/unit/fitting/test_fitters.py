"""Fitting combiners over a tiny model: what is collected against naive computations, and the verb from end to end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from numpy.typing import NDArray
from typer.testing import CliRunner

from commands import path_of
from lacuna.cli.commands import add_verb
from lacuna.cli.evaluate import evaluate
from lacuna.cli.fit import fit as verb
from lacuna.combiners import Adaptive, Combiner, Kster, SavedCombiner, Vanilla, load_combiner
from lacuna.combiners.storage import CombinerError
from lacuna.datastore import build_store
from lacuna.decoding import BeamSettings
from lacuna.errors import SettingError, StoreError
from lacuna.evaluation import evaluate_systems
from lacuna.fitting import DevSet, FitAdaptive, FitKster, FitVanilla, dev_pass, fit_combiner, make_fitter, tune
from lacuna.fitting.dev_pass import MIN_LOG_P, vocabulary_totals
from lacuna.fitting.token_cache import TokenCache, collect_dev, collect_entries
from lacuna.index import build_index
from lacuna.index.base import Neighborhood
from lacuna.memory import FolderMemory, Memory, open_memory
from lacuna.models.adapter import Model
from lacuna.pruning import make_pruner, prune_store
from lacuna.translator import System
from made_up import make_pairs, write_pairs
from plain_systems import open_plain
from unit.models.tiny_models import Zoo

TRAIN, DEV = make_pairs(30, seed=1), make_pairs(12, seed=2)
SHORT = BeamSettings(beam=2, max_new_tokens=8)
KINDS = {"vanilla": Vanilla, "adaptive": Adaptive, "kster": Kster}


@pytest.fixture(scope="module")
def memories(model: Model, tmp_path_factory: pytest.TempPathFactory) -> list[Memory]:
    """Two memories, of which the second was merged and has weights."""
    folder = tmp_path_factory.mktemp("memories")
    build_index(build_store(model, TRAIN[:15], folder / "first"))
    second = build_store(model, TRAIN[15:], folder / "second")
    build_index(second)
    prune_store(second, make_pruner("merge", k=3), folder / "merged", ratio=0.1, seed=1, clamp=True)
    return [open_memory(folder / "first"), open_memory(folder / "merged")]


def log_probs(model: Model, queries: torch.Tensor) -> NDArray[np.float64]:
    return model.project(queries).double().log_softmax(-1).numpy()


def check_cache(cache: TokenCache, model: Model, memories: list[Memory], queries: torch.Tensor) -> None:
    """Compare a cache with a search through all keys and with the model's whole distribution."""
    rows = torch.arange(cache.tokens)
    assert cache.read_queries is not None
    torch.testing.assert_close(cache.read_queries(rows), queries, rtol=0, atol=1e-4)
    far = ((cache.read_keys(rows) - queries[:, None]) ** 2).sum(-1)
    torch.testing.assert_close(cache.distances, far, rtol=1e-3, atol=1e-3)
    dense = log_probs(model, queries)
    places = np.arange(cache.tokens)
    np.testing.assert_allclose(cache.log_p_gold, dense[places, cache.gold], atol=1e-4)
    np.testing.assert_allclose(cache.log_p_values, np.take_along_axis(dense, cache.values.numpy(), 1), atol=1e-4)
    np.testing.assert_allclose(cache.log_p_sum, dense.sum(1), rtol=1e-5)
    assert cache.vocabulary_size == dense.shape[1]
    assert cache.log_weights is not None
    assert cache.log_weights.exp().max() >= 2


def test_dev_tokens_are_collected_in_their_order(model: Model, memories: list[Memory]) -> None:
    cache = collect_dev(model, memories, DevSet(DEV, batch_size=5), 4, keep_queries=True)
    targets = model.encode_targets([pair.target for pair in DEV])
    assert cache.gold.tolist() == [token for target in targets for token in target]
    assert cache.sentences.tolist() == [n for n, target in enumerate(targets) for _ in target]
    forced = model.teacher_force(model.encode_sources([pair.source for pair in DEV]), targets)
    check_cache(cache, model, memories, forced.keys)
    keys = [memory.store.keys.gather(np.arange(memory.store.entries)).astype(np.float32) for memory in memories]
    far = ((np.concatenate(keys)[None] - forced.keys.numpy()[:, None]) ** 2).sum(-1)
    np.testing.assert_allclose(cache.distances, np.sort(far, axis=1)[:, :4], rtol=1e-3, atol=1e-3)


def test_entries_are_looked_up_without_themselves(model: Model, memories: list[Memory]) -> None:
    cache = collect_entries(model, memories, 4, most=10_000, seed=1)
    keys = np.concatenate([m.store.keys.gather(np.arange(m.store.entries)) for m in memories]).astype(np.float32)
    assert cache.gold.tolist() == np.concatenate([memory.store.values for memory in memories]).tolist()
    check_cache(cache, model, memories, torch.from_numpy(keys))
    far = ((keys[None] - keys[:, None]) ** 2).sum(-1)
    np.fill_diagonal(far, np.inf)  # an entry of the same key counts, the entry itself does not
    np.testing.assert_allclose(cache.distances, np.sort(far, axis=1)[:, :4], rtol=1e-3, atol=1e-3)


def test_entries_are_drawn_where_there_are_more(model: Model, memories: list[Memory]) -> None:
    some = [collect_entries(model, memories, 2, most=20, seed=seed) for seed in (1, 1, 2)]
    assert [cache.tokens for cache in some] == [20, 20, 20]
    assert torch.equal(some[0].distances, some[1].distances)
    assert not torch.equal(some[0].distances, some[2].distances)


def test_a_token_that_the_model_shuts_out_does_not_spoil_the_sums(
    model: Model, memories: list[Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    def project(self: Model, keys: torch.Tensor) -> torch.Tensor:
        return plain(self, keys).index_fill(1, torch.tensor([2]), -torch.inf)

    plain = Model.project
    monkeypatch.setattr(Model, "project", project)
    cache = collect_dev(model, memories, DevSet(DEV[:2]), 2)
    others = torch.arange(model.vocabulary_size) != 2
    forced = model.teacher_force(
        model.encode_sources([pair.source for pair in DEV[:2]]), model.encode_targets([pair.target for pair in DEV[:2]])
    )
    dense = plain(model, forced.keys)[:, others].double().log_softmax(-1)
    np.testing.assert_allclose(cache.log_p_sum, dense.sum(1) + MIN_LOG_P, rtol=1e-5)


def test_the_columns_of_the_model_are_those_of_its_whole_distribution(
    model: Model, memories: list[Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    dev, asked = DevSet(DEV[:3]), list[int]()

    def note(model: Model, keys: torch.Tensor) -> torch.Tensor:
        asked.append(len(keys))
        return vocabulary_totals(model, keys)

    monkeypatch.setattr(dev_pass, "vocabulary_totals", note)
    for k in (2, 3):
        cache = collect_dev(model, memories, dev, k)
        batches = list(dev.teacher_force(model))
        rows = torch.cat([batch.sentences for batch in batches]).argsort(stable=True)
        keys = torch.cat([batch.outputs.keys for batch in batches])[rows]
        dense = model.project(keys).double().log_softmax(-1)
        np.testing.assert_allclose(cache.log_p_gold, dense.gather(1, cache.gold[:, None])[:, 0], atol=1e-5)
        np.testing.assert_allclose(cache.log_p_values, dense.gather(1, cache.values), atol=1e-5)
        np.testing.assert_allclose(cache.log_p_sum, dense.sum(1), rtol=1e-5)
    assert sum(asked) == cache.tokens  # the whole vocabulary is looked at once, whatever is fitted


class Blind:
    """An index that never finds the entry it is asked with."""

    kind, size = "blind", 100

    def search(self, queries: NDArray[np.float32], k: int) -> Neighborhood:
        ids = np.tile(np.arange(k), (len(queries), 1)) + 50
        return Neighborhood(np.tile(np.arange(k, dtype=np.float32), (len(queries), 1)), ids)


def test_an_entry_that_is_not_found_leaves_out_the_last_instead(model: Model, memories: list[Memory]) -> None:
    blind = FolderMemory.of(memories[0].store, memories[0].name, Blind())
    cache = collect_entries(model, [blind], 3, most=10_000, seed=1)
    assert cache.distances[0].tolist() == [0.0, 1.0, 2.0]
    assert cache.distances[51].tolist() == [0.0, 2.0, 3.0]  # its own id is the second


@pytest.mark.parametrize("kind", list(KINDS))
def test_fitted_combiners_translate_after_loading(
    kind: str, model: Model, memories: list[Memory], tmp_path: Path
) -> None:
    settings = {"entries": 100} if kind == "kster" else {"temperature": 30.0}
    fitter = make_fitter(kind, k=4, **settings)
    report = fit_combiner(fitter, model, memories, DEV, tmp_path / "combiner")
    saved = load_combiner(report.into)
    assert (report.combiner.path, report.combiner.manifest) == (saved.path, saved.manifest)
    saved.check_model(model.fingerprint)
    assert isinstance(saved.combiner, KINDS[kind])
    assert saved.k == 4
    assert [one.fingerprint for one in saved.manifest.memories] == [memory.store.fingerprint for memory in memories]
    assert report.fitted.perplexity < report.fitted.model_perplexity
    texts = [pair.source for pair in DEV[:3]]

    def translate(combiner: Combiner) -> list[str]:
        return [one.text for one in open_plain(model, memories, combiner, SHORT).translate(texts, evidence=True)]

    assert translate(saved) == translate(report.combiner)


def test_same_seed_same_files(model: Model, memories: list[Memory], tmp_path: Path) -> None:
    for name in ("one", "two"):
        fit_combiner(FitAdaptive(k=2, temperature=10.0), model, memories, DEV, tmp_path / name, seed=4)
    for file in ("manifest.json", "weights.safetensors"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_vanilla_is_what_tuning_finds(model: Model, memories: list[Memory]) -> None:
    best = tune(model, memories, DEV)[0]
    fitted = FitVanilla().fit(model, memories, DevSet(DEV))
    assert fitted.combiner == best.combiner
    assert fitted.perplexity == pytest.approx(best.perplexity)
    narrow = FitVanilla(k=3, temperature=7.0).fit(model, memories, DevSet(DEV)).combiner
    assert isinstance(narrow, Vanilla)
    assert (narrow.k, narrow.temperature) == (3, 7.0)


def test_memories_with_fewer_entries_than_k(model: Model, tmp_path: Path) -> None:
    build_index(build_store(model, TRAIN[:1], tmp_path / "tiny"))
    tiny = open_memory(tmp_path / "tiny")
    assert tiny.store.entries < 32
    looked_up = collect_entries(model, [tiny], 32, most=100, seed=1)
    assert (looked_up.values >= 0).sum(1).tolist() == [tiny.store.entries - 1] * tiny.store.entries
    adaptive = FitAdaptive(k=32, temperature=10.0).fit(model, [tiny], DevSet(DEV[:4])).combiner
    for combiner in (adaptive, Kster(model.dimension, 32)):
        [result] = open_plain(model, [tiny], combiner, SHORT).translate([DEV[0].source], evidence=True)
        assert all(0 <= step.knn_weight <= 1 + 1e-6 for step in result.steps)


@pytest.mark.parametrize(
    ("kind", "settings", "says"),
    [
        ("wise", {}, "allowed: vanilla, adaptive, kster"),
        ("adaptive", {"k": 6}, "power of 2"),
        ("adaptive", {"kernel": "gaussian"}, "adaptive takes only k, temperature"),
        ("vanilla", {"temperature": -1.0}, "temperature: got -1"),
        ("kster", {"kernel": "box"}, "laplacian, gaussian"),
        ("kster", {"entries": 0}, "entries: got 0"),
    ],
)
def test_settings_out_of_range_are_refused(kind: str, settings: dict[str, object], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        make_fitter(kind, **settings)


def test_what_cannot_be_fitted_is_refused_before_any_work(
    zoo: Zoo, model: Model, memories: list[Memory], tmp_path: Path
) -> None:
    with pytest.raises(SettingError, match="no memory"):
        fit_combiner(FitAdaptive(), model, [], DEV, tmp_path / "new")
    for fitter in (FitVanilla(), FitAdaptive(), FitKster()):
        with pytest.raises(StoreError, match="built with another model"):
            fit_combiner(fitter, zoo.model("t5"), memories, DEV, tmp_path / "new")
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").write_text("precious")
    with pytest.raises(CombinerError, match="already there"):
        fit_combiner(FitAdaptive(), model, memories, [], tmp_path / "used")
    assert [path.name for path in tmp_path.iterdir()] == ["used"]


def test_verb(zoo: Zoo, memories: list[Memory], tmp_path: Path) -> None:
    app = typer.Typer()
    add_verb(app, path_of(verb))
    dev, into = write_pairs(tmp_path / "dev.tsv", DEV), tmp_path / "combiner"
    options = ["--model", zoo.folder("marian"), "--device", "cpu", "--k", 2, "--into", into]
    options += [word for memory in memories for word in ("--memory", memory.store.path)]
    result = CliRunner().invoke(app, [str(word) for word in ["adaptive", dev, *options, "--json"]])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    saved = load_combiner(into)
    assert isinstance(saved, SavedCombiner)
    assert report["settings"] == saved.manifest.settings
    assert report["combiner"] == "adaptive"
    assert report["perplexity"] < report["model_perplexity"]
    again = CliRunner().invoke(app, [str(word) for word in ["adaptive", dev, *options]])
    assert isinstance(again.exception, CombinerError)


@pytest.mark.parametrize("kind", KINDS)
def test_evaluate_translates_with_any_combiner(
    kind: str, model: Model, memories: list[Memory], zoo: Zoo, tmp_path: Path
) -> None:
    test = write_pairs(tmp_path / "test.tsv", DEV[:3])
    folder = tmp_path / "combiner"
    fit_combiner(make_fitter(kind, k=2), model, memories, DEV, folder)
    stores = [word for memory in memories for word in ("--memory", str(memory.store.path))]
    words = [str(test), "--model", model.name, *stores, "--combiner", str(folder), "--json"]
    app = typer.Typer()
    app.command()(evaluate)
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    systems = json.loads(shown.stdout)["systems"]
    assert [system["name"] for system in systems] == ["model alone", str(folder)]
    translator = System(model, memories, load_combiner(folder)).open()
    texts = [one.text for one in translator.translate([pair.source for pair in DEV[:3]])]
    [expected] = evaluate_systems([pair.target for pair in DEV[:3]], {"naive": texts})
    assert systems[1]["bleu"] == expected.bleu.value
    assert systems[1]["chrf"] == expected.chrf.value
