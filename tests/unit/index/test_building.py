import json
import threading
from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np
import pytest

from lacuna.errors import IndexingError
from lacuna.index import FaissIndex, build_index, building, open_index
from lacuna.index.faiss import _interruptible, make_index, write_faiss
from lacuna.index.kinds import IndexKind

from .fakes import FakeStore, brute_force, clustered

KEYS, QUERIES = clustered(2000, 16)


@pytest.fixture
def store(tmp_path: Path) -> FakeStore:
    faiss.omp_set_num_threads(1)
    return FakeStore(tmp_path / "store", KEYS)


def data_file(store: FakeStore) -> Path:
    return next((store.path / "index").glob("index-*.faiss"))


def test_the_manifest_tells_all(store: FakeStore) -> None:
    report = build_index(store, "IVF16,PQ8x4fs", seed=7, nprobe=5)
    content = json.loads((store.path / "index" / "manifest.json").read_text())
    assert content["asked"] == content["kind"] == "IVF16,PQ8x4fs"
    assert (content["seed"], content["probes"], content["rerank"], content["rows"]) == (7, 5, 8, 2000)
    assert content["training_rows"] == 2000
    assert content["data"]["bytes"] == data_file(store).stat().st_size
    assert report.as_json()["sha256"] == content["data"]["sha256"]


@pytest.mark.parametrize("kind", ["exact", "IVF16,PQ8x4fs", "HNSW32_SQfp16"])
def test_the_report_holds_the_index(store: FakeStore, kind: str) -> None:
    index, opened = build_index(store, kind).index, open_index(store)
    assert (index.kind, index.size) == (opened.kind, opened.size) == (kind, 2000)
    assert np.array_equal(index.search(QUERIES, 8).ids, opened.search(QUERIES, 8).ids)


def test_auto_says_what_and_why(store: FakeStore) -> None:
    content = build_index(store).as_json()
    assert (content["asked"], content["kind"], content["bytes"]) == ("auto", "exact", 0)
    assert "2,000 entries" in content["why"]


@pytest.mark.parametrize("kind", ["IVF16,PQ8", "IVF16,PQ8x4fs", "IVF64_HNSW8,PQ8x4fs", "HNSW32_SQfp16"])
def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, kind: str) -> None:
    faiss.omp_set_num_threads(1)
    stores = [FakeStore(tmp_path / name, KEYS) for name in "abc"]
    first, again, other = (
        build_index(store, kind, seed=seed).manifest.data for store, seed in zip(stores, (3, 3, 4), strict=True)
    )
    assert first == again
    assert first != other


def test_the_graph_of_the_centroids_does_not_depend_on_the_threads(tmp_path: Path) -> None:
    graphs = []
    for threads in (1, 4):
        faiss.omp_set_num_threads(threads)
        store, kind = FakeStore(tmp_path / str(threads), KEYS), IndexKind("IVF256_HNSW8,Flat", lists=256)
        index, _ = make_index(store, kind, seed=1, training_rows=None)
        graph = faiss.downcast_index(index.quantizer)
        graphs.append((faiss.vector_to_array(graph.hnsw.neighbors), graph.reconstruct_n(0, 256)))
    faiss.omp_set_num_threads(1)
    assert np.array_equal(graphs[0][1], graphs[1][1])
    assert np.array_equal(graphs[0][0], graphs[1][0])


def test_the_training_sample_is_drawn_not_cut_off(store: FakeStore) -> None:
    build_index(store, "IVF4,Flat", training_rows=100)
    (drawn,) = store.keys.gathered
    assert len(np.unique(drawn)) == 100
    assert drawn.max() > 1500


def test_settings_can_be_changed_on_opening(store: FakeStore) -> None:
    build_index(store, "IVF16,PQ8", nprobe=1)
    index = open_index(store, nprobe=16, rerank=8)
    assert isinstance(index, FaissIndex)
    assert (index.settings.nprobe, index.settings.rerank) == (16, 8)
    found = index.search(QUERIES, 8)
    differences = KEYS[found.ids].astype(np.float64) - QUERIES[:, None]
    assert np.allclose(found.distances, (differences**2).sum(axis=2), rtol=1e-5)
    assert (found.ids == brute_force(KEYS, QUERIES, 8)[1]).mean() > 0.9


def test_few_training_keys_are_noted(store: FakeStore) -> None:
    assert "faiss recommends" in build_index(store, "IVF100,Flat").manifest.notes[0]
    assert build_index(store, "IVF16,Flat").manifest.notes == ()


def test_a_new_index_takes_the_place_of_the_old_one(store: FakeStore) -> None:
    build_index(store, "Flat")
    (store.path / "index" / ".building-1.tmp").write_text("left by a build that was killed")
    build_index(store, "IVF16,Flat")
    assert open_index(store).kind == "IVF16,Flat"
    build_index(store, "exact")
    assert [path.name for path in (store.path / "index").iterdir()] == ["manifest.json"]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("IVF4096,PQ64", "4,096 lists and needs at least as many entries, the store has 2,000; use `kind` exact"),
        ("IVF16,PQ7", "must divide the dimension, 16"),
        ("PQ5", "must divide the dimension, 16"),
        ("PCAR10,IVF16,PQ3", "faiss cannot build for 16-dimensional keys"),
        ("ivf16", "allowed: auto, exact, or a faiss factory string"),
        ("", "allowed: auto, exact"),
        ("IVF16,Foo", "faiss cannot build"),
        ("PQ2x12", "training PQ2x12 on 2,000 keys"),
    ],
)
def test_kinds_that_cannot_be_made(store: FakeStore, kind: str, message: str) -> None:
    with pytest.raises(IndexingError, match=message) as caught:
        build_index(store, kind)
    assert "\n" not in str(caught.value)
    assert "/project/" not in str(caught.value)


def test_lists_in_an_empty_store(tmp_path: Path) -> None:
    with pytest.raises(IndexingError, match="the store has 0; use `kind` exact"):
        build_index(FakeStore(tmp_path / "s", np.zeros((0, 16), np.float16)), "IVF16,Flat")


def test_too_small_a_sample(store: FakeStore) -> None:
    with pytest.raises(IndexingError, match="training_rows: got 5, IVF16,Flat needs 16"):
        build_index(store, "IVF16,Flat", training_rows=5)


def test_a_store_without_an_index(store: FakeStore) -> None:
    with pytest.raises(IndexingError, match=f"has no index; build it with: lacuna index {store.path}"):
        open_index(store)


@pytest.mark.parametrize("kind", ["exact", "Flat"])
def test_the_index_of_another_store_is_refused(store: FakeStore, tmp_path: Path, kind: str) -> None:
    build_index(store, kind)
    other = FakeStore(tmp_path / "other", KEYS[::-1].copy())
    (store.path / "index").rename(other.path / "index")
    with pytest.raises(IndexingError, match="of another store"):
        open_index(other)


def test_a_store_without_a_manifest(store: FakeStore) -> None:
    (store.path / "manifest.json").unlink()
    with pytest.raises(IndexingError, match="finished store"):
        build_index(store)


DAMAGE: dict[str, tuple[Callable[[FakeStore], object], str]] = {
    "cut short": (lambda store: data_file(store).write_bytes(data_file(store).read_bytes()[:100]), "100 of"),
    "a bit flipped": (
        lambda store: data_file(store).write_bytes(data_file(store).read_bytes()[:-1] + b"\x77"),
        "damaged",
    ),
    "gone": (lambda store: data_file(store).unlink(), "cannot be read"),
    "no JSON": (lambda store: (store.path / "index" / "manifest.json").write_text("{"), "JSON"),
    "a list": (lambda store: (store.path / "index" / "manifest.json").write_text("[]"), "content"),
    "not UTF-8": (lambda store: (store.path / "index" / "manifest.json").write_bytes(b"\xff\xfe"), "not JSON"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_one_line_with_a_way_out(store: FakeStore, name: str) -> None:
    build_index(store, "Flat")
    harm, message = DAMAGE[name]
    harm(store)
    with pytest.raises(IndexingError, match=message) as caught:
        open_index(store)
    assert f"lacuna index {store.path}" in str(caught.value)


@pytest.mark.parametrize(("field", "value"), [("format", 2), ("extra", 1), ("data", {"file": "../../x"})])
def test_a_manifest_of_another_make_is_refused(store: FakeStore, field: str, value: object) -> None:
    build_index(store, "Flat")
    path = store.path / "index" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    with pytest.raises(IndexingError, match="build the index again"):
        open_index(store)


@pytest.mark.parametrize("step", ["make_index", "write_faiss", "sha256_of", "write_manifest"])
def test_a_build_that_dies_leaves_the_earlier_index(
    store: FakeStore, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    build_index(store, "IVF16,Flat")
    before = open_index(store).search(QUERIES, 8)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(building, step, die)
        with pytest.raises(KeyboardInterrupt):
            build_index(store, "HNSW32_SQfp16")
    after = open_index(store)
    assert after.kind == "IVF16,Flat"
    assert np.array_equal(after.search(QUERIES, 8).ids, before.ids)
    assert not list((store.path / "index").glob("*.tmp"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no file that is always full")
def test_a_full_disk_is_noticed_however_small_the_index_is() -> None:
    """faiss itself ignores if the last bytes cannot be written, and these may be all."""
    with pytest.raises(OSError, match="No space left"):
        write_faiss(faiss.IndexFlatL2(4), "/dev/full")


def test_an_interrupt_ends_training_but_not_a_search_of_several_threads() -> None:
    """Where faiss looks for signals in a parallel loop, the error ends the process."""
    never = faiss.InterruptCallback.get_period_hint(1)
    assert never == 1 << 30
    with _interruptible():
        assert faiss.InterruptCallback.get_period_hint(1) < never
    with pytest.raises(KeyboardInterrupt), _interruptible():
        raise KeyboardInterrupt
    assert faiss.InterruptCallback.get_period_hint(1) == never
    hints: list[int] = []

    def train_in_another_thread() -> None:
        with _interruptible():
            hints.append(faiss.InterruptCallback.get_period_hint(1))

    thread = threading.Thread(target=train_in_another_thread)
    thread.start()
    thread.join()
    assert hints == [never]
