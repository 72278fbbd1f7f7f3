"""Stores of other toolkits become ours: the same keys and values, and what our own build says of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lacuna.datastore import Store, build_store, compare_predictions, entries_of, open_store, verify_store
from lacuna.datastore.importing import StoreImport, import_store, recognize_store
from lacuna.errors import StoreError
from lacuna.models import Model, load_model
from unit.datastore.disk import contents
from unit.datastore.foreign_stores import (
    PAIRS,
    Table,
    read_pairs,
    teach,
    write_adaptive,
    write_knn_box,
    write_knn_transformers,
)
from unit.models.tiny_models import Zoo

ROWS = 60


@pytest.fixture(scope="module")
def taught(zoo: Zoo, tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = zoo.copy("marian", tmp_path_factory.mktemp("taught") / "marian")
    teach(folder)
    return load_model(folder, device="cpu")


@pytest.fixture(scope="module")
def table(taught: Model) -> Table:
    return read_pairs(taught)


@pytest.fixture(scope="module")
def own(taught: Model, tmp_path_factory: pytest.TempPathFactory) -> Store:
    return build_store(taught, PAIRS, tmp_path_factory.mktemp("own") / "store", cleaning=None, shard_rows=ROWS)


def imported(source: Path, model: Model, **settings: object) -> tuple[Store, StoreImport]:
    into = source.with_name("imported")
    report = import_store(source, into, model, shard_rows=ROWS, **settings)  # type: ignore[arg-type]
    return open_store(into), report


def all_keys(store: Store) -> np.ndarray:
    return store.keys.gather(np.arange(store.entries))


WRITERS: dict[str, Callable[[Path, Table], Path]] = {
    "knn-box": lambda folder, table: write_knn_box(folder, table.out, table.values),
    "adaptive-knn-mt": lambda folder, table: write_adaptive(folder, table.out, table.values),
    "knn-transformers": lambda folder, table: write_knn_transformers(folder, table.ffn_in, table.values),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_an_imported_store_is_what_our_own_build_gives(
    kind: str, taught: Model, table: Table, own: Store, tmp_path: Path
) -> None:
    source = WRITERS[kind](tmp_path / "theirs", table)
    assert recognize_store(source) == kind
    before = contents(source)
    store, report = imported(source, taught)
    assert contents(source) == before
    assert store.values.tolist() == own.values.tolist() == table.values.tolist()
    assert store.sentence.tolist() == own.sentence.tolist()
    assert store.position.tolist() == own.position.tolist()
    # Half precision may turn one prediction where two tokens are almost equal.
    assert np.count_nonzero(store.predictions != own.predictions) <= 1
    assert store.known.tolist() == (store.values == store.predictions).tolist()
    np.testing.assert_allclose(store.log_p_gold, own.log_p_gold, atol=0.03)
    np.testing.assert_allclose(store.entropy, own.entropy, atol=0.03)
    np.testing.assert_allclose(all_keys(store).astype(np.float32), table.out, atol=0.02)
    assert [shard.rows for shard in store.manifest.shards] == [shard.rows for shard in own.manifest.shards]
    assert [pair.target for pair in store.sentences] == [taught.decode(ids) for ids in split(table)]
    assert {pair.source for pair in store.sentences} == {""}
    assert verify_store(store.path).problems == ()
    assert compare_predictions(store, taught.predict).mismatches <= 1
    store.check_model(taught)
    assert (report.kind, report.entries, report.ghosts, report.without_end) == (kind, len(table.values), 0, 0)
    assert report.known == int(np.count_nonzero(store.known))
    # Neither all nor none: the sentences are taught, but some have several translations.
    assert 0.2 < report.known / report.entries < 1


def split(table: Table) -> list[list[int]]:
    return [part.tolist() for part in np.split(table.values, np.cumsum(table.lengths)[:-1])]


def test_keys_of_kind_out_are_kept_bit_for_bit(taught: Model, table: Table, tmp_path: Path) -> None:
    store, _ = imported(write_knn_box(tmp_path / "theirs", table.out, table.values), taught)
    assert all_keys(store).tobytes() == table.out.astype(np.float16).tobytes()


def test_the_store_says_where_it_comes_from(taught: Model, table: Table, tmp_path: Path) -> None:
    store, _ = imported(write_adaptive(tmp_path / "theirs", table.out, table.values, ghosts=4), taught)
    assert store.manifest.corpus.files == ("keys.npy", "vals.npy")
    parent = store.manifest.parent
    assert parent is not None
    assert (parent.made_by, parent.entries) == ("import", len(table.values) + 4)
    assert parent.settings == {"format": "adaptive-knn-mt", "key": "out", "ghosts": 4}
    second = int(np.cumsum(table.lengths)[0])
    assert str(store.sentences[1].origin) == f"vals.npy:entry {second}"
    assert [entry.entry for entry in entries_of(store, sentence=1)] == list(range(second, second + table.lengths[1]))


def test_the_same_input_gives_the_same_bytes(taught: Model, table: Table, tmp_path: Path) -> None:
    source = write_knn_box(tmp_path / "theirs", table.out, table.values)
    for name in ("one", "two"):
        import_store(source, tmp_path / name, taught, shard_rows=ROWS)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("values", [np.int64, np.int32])
@pytest.mark.parametrize("ghosts", [0, 5000])
def test_without_a_manifest_sizes_say_the_types_and_empty_rows_are_dropped(
    dtype: type, values: type, ghosts: int, taught: Model, table: Table, tmp_path: Path
) -> None:
    source = write_adaptive(tmp_path / "theirs", table.out, table.values.astype(values), dtype=dtype, ghosts=ghosts)
    store, report = imported(source, taught)
    assert (store.entries, report.ghosts) == (len(table.values), ghosts)
    assert store.values.tolist() == table.values.tolist()
    assert all_keys(store).tobytes() == table.out.astype(np.float16).tobytes()


def test_the_number_of_entries_can_be_told(taught: Model, table: Table, tmp_path: Path) -> None:
    store, report = imported(write_adaptive(tmp_path / "theirs", table.out, table.values), taught, entries=20)
    assert store.values.tolist() == table.values[:20].tolist()
    # The last sentence was cut in two by it, and is a sentence still.
    assert report.without_end == int(table.values[19] != taught.eos_id)
    assert verify_store(store.path).problems == ()


@pytest.mark.parametrize("kind", WRITERS)
def test_true_npy_files_are_read_too(kind: str, taught: Model, table: Table, tmp_path: Path) -> None:
    source = WRITERS[kind](tmp_path / "theirs", table)
    keys, values = (next(source.glob(f"*{name}.npy")) for name in ("keys", "vals"))
    of_kind = table.ffn_in if kind == "knn-transformers" else table.out
    np.save(keys, of_kind.astype(np.float16))
    np.save(values, table.values[:, None])
    store, _ = imported(source, taught)
    assert store.values.tolist() == table.values.tolist()
    np.testing.assert_allclose(all_keys(store).astype(np.float32), table.out, atol=0.02)


def test_reserved_space_at_the_end_of_a_knn_box_file_is_not_read(taught: Model, table: Table, tmp_path: Path) -> None:
    source = write_knn_box(tmp_path / "theirs", table.out, table.values)
    with (source / "keys.npy").open("ab") as file:
        file.write(b"\1" * 100)
    assert imported(source, taught)[0].entries == len(table.values)


def test_sentence_ids_and_positions_of_the_source_are_used(taught: Model, table: Table, tmp_path: Path) -> None:
    """Sentences in an order of their own, and every third entry pruned away, end tokens among them."""
    ids = np.repeat(np.arange(len(PAIRS))[::-1] * 7, table.lengths)
    positions = np.concatenate([np.arange(length) for length in table.lengths])
    kept = np.arange(len(ids)) % 3 != 1
    source = write_knn_box(
        tmp_path / "theirs",
        table.out[kept],
        table.values[kept],
        sentence_ids=ids[kept],
        token_positions=positions[kept],
    )
    store, _ = imported(source, taught)
    numbers = {number: place for place, number in enumerate(dict.fromkeys(ids[kept].tolist()))}
    assert store.sentence.tolist() == [numbers[number] for number in ids[kept].tolist()]
    assert store.position.tolist() == positions[kept].tolist()
    assert [pair.origin.place for pair in store.sentences] == [f"sentence {number}" for number in numbers]
    assert verify_store(store.path).problems == ()


def test_weights_of_a_merged_store_are_kept(taught: Model, table: Table, tmp_path: Path) -> None:
    weights = np.arange(len(table.values)) % 4 + 1
    source = write_knn_box(tmp_path / "theirs", table.out, table.values, merge_weights=weights)
    store, _ = imported(source, taught)
    assert store.weights is not None
    assert store.weights.tolist() == weights.tolist()
    assert verify_store(store.path).problems == ()


def test_predictions_that_the_source_wrote_down_are_compared(taught: Model, table: Table, tmp_path: Path) -> None:
    store, _ = imported(write_knn_box(tmp_path / "theirs", table.out, table.values), taught)
    theirs, known = store.predictions.astype(np.int64), store.known.astype(np.int64)
    theirs[[3, 40]] += 1
    known[5] = 1 - known[5]
    extras = {"mt_preds": theirs, "mt_known": known}
    source = write_knn_box(tmp_path / "second", table.out, table.values, **extras)
    report = import_store(source, tmp_path / "again", taught)
    assert report.differing == {"mt_preds": 2, "mt_known": 1}


def test_a_run_without_end_tokens_is_cut_where_no_sentence_can_be_longer(
    taught: Model, table: Table, tmp_path: Path
) -> None:
    kept = table.values != taught.eos_id
    source = write_adaptive(tmp_path / "theirs", table.out[kept], table.values[kept])
    store, report = imported(source, taught)
    longest = np.bincount(store.sentence)
    assert longest[:-1].tolist() == [taught.max_length] * (len(longest) - 1)
    assert report.without_end == len(longest) == -(-int(kept.sum()) // taught.max_length)
    assert verify_store(store.path).problems == ()


def test_a_fault_in_a_later_shard_leaves_nothing_behind(taught: Model, table: Table, tmp_path: Path) -> None:
    values = table.values.copy()
    values[-2] = taught.vocabulary_size
    source = write_knn_box(tmp_path / "theirs", table.out, values)
    with pytest.raises(StoreError, match=f"entry {len(values) - 2} has the value {taught.vocabulary_size}"):
        imported(source, taught)
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]
