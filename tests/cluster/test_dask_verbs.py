"""The verbs with Dask workers: the same bytes as without, also if workers or the command itself are killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.dask_helpers import hashes, killing
from lacuna.corpora import read_corpus
from lacuna.datastore import build_store, open_store, verify_store
from lacuna.errors import ModelError
from lacuna.index import build_index, measure_recall
from lacuna.margin import Approximate, measure_margin
from lacuna.memory import open_memory
from lacuna.models import load_model
from lacuna.pruning import Distill, Merge, Plac, Pruner, prune_store
from lacuna.workers.dask_pool import DaskPool, open_pool
from made_up import make_pairs, write_pairs
from plain_systems import open_plain
from unit.margin.stores import clustered, make_store
from unit.models.tiny_models import make_marian

pytestmark = pytest.mark.cluster

SHARD_ROWS = 300


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a model, a corpus, a store built without a cluster, and one of keys that are drawn at random."""
    folder = tmp_path_factory.mktemp("files")
    make_marian(folder / "model")
    write_pairs(folder / "toy.tsv", make_pairs(200))
    build(folder / "store", folder, None)
    keys = make_store(folder / "keys", *clustered(6000, 32, 0.6), shards=5)
    build_index(keys, "IVF16,Flat")
    return folder


@pytest.fixture(scope="module", params=[1, 2])
def pool(request: pytest.FixtureRequest) -> Iterator[DaskPool]:
    with open_pool(workers=request.param) as opened:
        yield opened


def build(into: Path, files: Path, pool: DaskPool | None) -> None:
    model = load_model(files / "model", device="cpu")
    build_store(model, read_corpus(files / "toy.tsv"), into, shard_rows=SHARD_ROWS, pool=pool)


def test_build(pool: DaskPool, files: Path, tmp_path: Path) -> None:
    build(tmp_path / "store", files, pool)
    assert len(open_store(tmp_path / "store").manifest.shards) > 5
    assert hashes(tmp_path / "store") == hashes(files / "store")


@pytest.mark.parametrize("approximate", [None, Approximate(nprobe=4)], ids=["exact", "approximate"])
def test_margin(approximate: Approximate | None, pool: DaskPool, files: Path, tmp_path: Path) -> None:
    for name, workers in (("plain", None), ("cluster", pool)):
        shutil.copytree(files / "keys", tmp_path / name)
        measure_margin(open_store(tmp_path / name), 64, approximate=approximate, pool=workers)
    assert "margin/margin.npy" in hashes(tmp_path / "plain")
    assert hashes(tmp_path / "cluster") == hashes(tmp_path / "plain")


@pytest.mark.parametrize("pruner", [Plac(min_margin=2), Merge(k=3), Distill(k=3)], ids=["plac", "merge", "distill"])
def test_prune(pruner: Pruner, pool: DaskPool, files: Path, tmp_path: Path) -> None:
    shutil.copytree(files / "keys", tmp_path / "keys")
    store = open_store(tmp_path / "keys")
    measure_margin(store, 16)
    for name, workers in (("plain", None), ("cluster", pool)):
        prune_store(store, pruner, tmp_path / name, ratio=0.2, clamp=True, pool=workers)
    assert open_store(tmp_path / "plain").entries < store.entries
    assert hashes(tmp_path / "cluster") == hashes(tmp_path / "plain")


def test_recall(pool: DaskPool, files: Path) -> None:
    memory = open_memory(files / "keys")
    found = [measure_recall(memory.store, memory.index, 4, sample=200, pool=each) for each in (None, pool)]
    assert found[0].results == found[1].results


def test_translate(pool: DaskPool, files: Path, tmp_path: Path) -> None:
    shutil.copytree(files / "store", tmp_path / "store")
    build_index(open_store(tmp_path / "store"))
    texts = [pair.source for pair in make_pairs(300, seed=5)]
    texts[3] = "  "
    memory = open_memory(tmp_path / "store")
    translator = open_plain(load_model(files / "model", device="cpu"), [memory])
    plain = translator.translate(texts)
    rows = translator.search_count.rows
    found = list(translator.stream(iter(texts), evidence=True, pool=pool))
    assert [each.text for each in found] == [each.text for each in plain]
    assert [each.score for each in found] == pytest.approx([each.score for each in plain], rel=1e-4)
    assert found[0].steps
    assert found[0].steps[0].neighbors
    assert translator.search_count.rows > rows


def test_another_model_at_the_same_place_is_refused(files: Path, tmp_path: Path) -> None:
    shutil.copytree(files / "model", tmp_path / "model")
    model = load_model(tmp_path / "model", device="cpu")
    assert model.fingerprint
    make_other(tmp_path / "model")
    with open_pool(workers=1) as pool, pytest.raises(ModelError, match="a worker finds another model there"):
        build_store(model, make_pairs(20), tmp_path / "store", pool=pool)


def make_other(folder: Path) -> None:
    """Change the weights of a saved model."""
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    save_file({name: each * 1.5 for name, each in weights.items()}, folder / "model.safetensors", {"format": "pt"})


def test_workers_killed_during_build_and_margin(files: Path, tmp_path: Path) -> None:
    shutil.copytree(files / "keys", tmp_path / "plain")
    shutil.copytree(files / "keys", tmp_path / "keys")
    measure_margin(open_store(tmp_path / "plain"), 64)
    with open_pool(workers=2) as pool, killing(pool, kills=6) as killed:
        build(tmp_path / "store", files, pool)
        measure_margin(open_store(tmp_path / "keys"), 64, pool=pool)
        assert killed
    assert hashes(tmp_path / "store") == hashes(files / "store")
    assert hashes(tmp_path / "keys") == hashes(tmp_path / "plain")


COMMAND = "from lacuna.cli.main import main; main()"


def start_build(files: Path, into: Path) -> subprocess.Popen[str]:
    """Start ``lacuna build`` with two workers in a process group of its own."""
    options = f"build {files / 'toy.tsv'} --model {files / 'model'} --into {into} --device cpu --workers 2"
    arguments = [*options.split(), "--shard-rows", str(SHARD_ROWS)]
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments], stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def wait_for_shards(folder: Path, count: int, process: subprocess.Popen[str]) -> None:
    state, until = folder / "building.json", time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        if state.exists() and len(json.loads(state.read_text())["shards"]) >= count:
            return
        time.sleep(0.002)
    raise AssertionError(f"no {count} shards (exit code {process.poll()})")


@pytest.mark.parametrize("workers", [None, 1], ids=["without workers", "with a worker"])
def test_a_killed_command_resumes(workers: int | None, files: Path, tmp_path: Path) -> None:
    with start_build(files, tmp_path / "store") as process:
        wait_for_shards(tmp_path / "store", 1, process)
        os.kill(process.pid, signal.SIGKILL)
    if workers is None:
        build(tmp_path / "store", files, None)
    else:
        with open_pool(workers=workers) as pool:
            build(tmp_path / "store", files, pool)
    assert hashes(tmp_path / "store") == hashes(files / "store")
    assert verify_store(tmp_path / "store").sound


def test_an_interrupted_command_says_so_in_one_line(files: Path, tmp_path: Path) -> None:
    with start_build(files, tmp_path / "store") as process:
        wait_for_shards(tmp_path / "store", 1, process)
        os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does: the workers get it, too
        _, err = process.communicate(timeout=120)
    if process.returncode != 0:  # it may have been done just before
        assert process.returncode == 130, err
        assert err.splitlines()[-1] == "lacuna: interrupted; the same command resumes from the work that is finished"
        assert "Traceback" not in err
    build(tmp_path / "store", files, None)
    assert hashes(tmp_path / "store") == hashes(files / "store")
