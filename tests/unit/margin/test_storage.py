"""Margins on disk: writing, reading, refusing damaged ones, and resuming a measurement."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from lacuna.datastore import Store, inspect_store, open_store
from lacuna.datastore.columns import record_of
from lacuna.errors import StoreError
from lacuna.margin import Approximate, MarginReport, MeasuredEntries, measure_margin, measurement, read_margins
from lacuna.margin.reference import reference_margins
from lacuna.progress import Silent
from unit.margin.stores import clustered, make_store

KEYS, KNOWN = clustered(400, 12, 0.8, seed=4)
NEARBY = Approximate(nprobe=2, lists=10, sample=300)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(measurement, "EXACT_LISTS", NEARBY)
    monkeypatch.setattr("lacuna.margin.radius.BLOCK", 64)
    monkeypatch.setattr("lacuna.margin.approximate.BLOCK", 64)
    return make_store(tmp_path / "store", KEYS, KNOWN)


def margin_files(store: Store) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (store.path / "margin").iterdir()}


def test_what_is_written(store: Store) -> None:
    report = measure_margin(store, 64)
    content = json.loads((store.path / "margin" / "manifest.json").read_text())
    assert (content["format"], content["kind"], content["method"]) == (1, "margins", "exact")
    assert (content["store"], content["entries"], content["max_margin"]) == (store.fingerprint, 400, 64)
    assert content["approximate"] is content["agreement"] is None
    assert sorted(margin_files(store)) == ["manifest.json", "margin.npy", "unknown.npy"]
    margins = np.load(store.path / "margin" / "margin.npy", allow_pickle=False)
    assert (margins.dtype, margins.shape) == (np.uint16, (400,))
    assert report.as_json()["xxh3"] == content["data"]["xxh3"]
    distances = np.load(store.path / "margin" / "unknown.npy", allow_pickle=False)
    assert (distances.dtype, distances.shape) == (np.float64, (400,))
    assert content["unknown"] == record_of(store.path / "margin" / "unknown.npy").model_dump()
    assert read_margins(store).unknown_distance.tolist() == report.margins.unknown_distance.tolist()


def test_approximate_margins_have_no_unknown_distances(store: Store) -> None:
    measure_margin(store, 64)
    (store.path / "margin" / "manifest.json").unlink()
    assert measure_margin(store, 64, approximate=NEARBY).margins.unknown_distance is None
    assert sorted(margin_files(store)) == ["manifest.json", "margin.npy"]
    assert read_margins(store).unknown_distance is None


def test_margins_of_earlier_versions_have_no_unknown_distances(store: Store) -> None:
    measure_margin(store, 64)
    folder = store.path / "margin"
    content = json.loads((folder / "manifest.json").read_text())
    del content["unknown"], content["checksum"]
    (folder / "manifest.json").write_text(json.dumps(content))
    (folder / "unknown.npy").unlink()
    margins = read_margins(store)
    assert margins.values.tolist() == reference_margins(KEYS, KNOWN, 64).tolist()
    assert margins.unknown_distance is None
    assert not measure_margin(store, 64).measured
    with pytest.raises(StoreError, match="exact margins without unknown distances, they cannot be updated"):
        MeasuredEntries.of(store, margins)


def test_the_report_holds_the_margins(store: Store) -> None:
    first, again = measure_margin(store, 64), measure_margin(store, 4)
    assert (first.measured, again.measured) == (True, False)
    expected = reference_margins(KEYS, KNOWN, 64).tolist()
    assert first.margins.values.tolist() == again.margins.values.tolist() == expected
    assert first.margins.manifest == read_margins(store).manifest == first.manifest


def test_a_state_of_another_version_is_discarded(store: Store) -> None:
    """A state of the first version has other tables under the names that are in use now."""
    folder = store.path / "margin" / "unfinished"
    folder.mkdir(parents=True)
    identity = json.dumps({"format": 1, "store": store.fingerprint, "max_margin": 64, "approximate": None})
    wrong = {name: np.full(400, 7) for name in ("open", "radius", "margin", "unknown_distance", "known_nearer")}
    np.savez(folder / "state.npz", identity=np.array(identity), stage=np.array(3), done=np.array(2), **wrong)
    assert measure_margin(store, 64).margins.values.tolist() == reference_margins(KEYS, KNOWN, 64).tolist()
    assert not folder.exists()


def test_histogram_by_known_and_unknown(store: Store) -> None:
    report = measure_margin(store)
    margins = reference_margins(KEYS, KNOWN, 2048)
    assert report.histogram["0"] == {
        "known": int((KNOWN & (margins == 0)).sum()),
        "unknown": int((~KNOWN & (margins == 0)).sum()),
    }
    assert report.histogram["4"]["known"] == int((KNOWN & (margins >= 4) & (margins < 8)).sum())
    assert inspect_store(store.path).as_json()["margin_histogram"] == report.histogram


def test_suitable_margins_are_not_measured_again(store: Store) -> None:
    assert measure_margin(store, 64).measured
    before = margin_files(store)
    same, smaller = measure_margin(store, 64), measure_margin(store, 4)
    nearby = measure_margin(store, 64, approximate=NEARBY)
    assert [same.measured, smaller.measured, nearby.measured] == [False] * 3
    assert margin_files(store) == before
    capped = reference_margins(KEYS, KNOWN, 4).tolist()
    assert read_margins(store).capped(4).tolist() == capped
    assert sum(smaller.histogram["4"].values()) == capped.count(4)
    with pytest.raises(StoreError, match=r"measured up to 64, but 65 is needed; .* and `max_margin` 65"):
        read_margins(store).capped(65)
    assert measure_margin(store, 65).measured


def test_approximate_margins_are_suitable_for_equal_settings_only(store: Store) -> None:
    assert measure_margin(store, 64, approximate=NEARBY).measured
    assert read_margins(store).manifest.approximate == NEARBY
    assert not measure_margin(store, 32, approximate=NEARBY).measured
    assert measure_margin(store, 64, approximate=Approximate(nprobe=3, lists=10)).measured
    assert measure_margin(store, 64).measured
    assert read_margins(store).manifest.method == "exact"


def test_without_margins_the_error_names_the_command(store: Store) -> None:
    with pytest.raises(StoreError, match=f"measure them first with: lacuna margin {store.path}"):
        read_margins(store)
    assert inspect_store(store.path).margin_histogram is None


def test_margins_of_another_store_are_refused(store: Store, tmp_path: Path) -> None:
    measure_margin(store)
    other = make_store(tmp_path / "other", KEYS[::-1], KNOWN[::-1])
    shutil.copytree(store.path / "margin", other.path / "margin")
    with pytest.raises(StoreError, match="of another store, or the store has changed"):
        read_margins(other)
    assert inspect_store(other.path).margin_histogram is None
    assert measure_margin(other).measured
    assert read_margins(other).values.tolist() == reference_margins(KEYS[::-1], KNOWN[::-1], 2048).tolist()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("margin.npy", b"\x93NUMPY", "changed or damaged|cannot be read"),
        ("margin.npy", None, "cannot be read"),
        ("unknown.npy", b"\x93NUMPY", "changed or damaged|cannot be read"),
        ("unknown.npy", None, "cannot be read"),
        ("manifest.json", b"{", "not JSON"),
        ("manifest.json", b"{}", "of kind None"),
        ("manifest.json", b"\xff", "not JSON"),
    ],
)
def test_damaged_margins_are_refused_and_measured_again(
    store: Store, name: str, content: bytes | None, message: str
) -> None:
    measure_margin(store)
    before = margin_files(store)
    path = store.path / "margin" / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StoreError, match=message):
        read_margins(store)
    assert measure_margin(store).measured
    assert margin_files(store) == before


@pytest.mark.parametrize(("field", "value"), [("format", 2), ("extra", 1), ("entries", "400"), ("method", "guess")])
def test_the_manifest_is_read_strictly(store: Store, field: str, value: object) -> None:
    measure_margin(store)
    path = store.path / "margin" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with pytest.raises(StoreError, match=f"{field}.*measure the margins again with: lacuna margin"):
        read_margins(store)


class Killed(BaseException):
    """Nothing catches it."""


class KillAfter(Silent):
    """Counts the steps of the progress, and raises at one of them."""

    def __init__(self, steps: float = float("inf")) -> None:
        self.left, self.taken = steps, 0

    def advance(self, amount: float = 1.0, note: str = "") -> None:
        self.taken += 1
        if self.taken > self.left:
            raise Killed


@pytest.mark.parametrize("approximate", [None, NEARBY])
def test_an_interrupted_measurement_resumes(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, approximate: Approximate | None
) -> None:
    whole = make_store(tmp_path / "whole", KEYS, KNOWN)
    assert whole.fingerprint == store.fingerprint
    uninterrupted = KillAfter()
    measure_margin(whole, approximate=approximate, progress=uninterrupted)
    monkeypatch.setattr("lacuna.margin.tasks.SECONDS_BETWEEN_SAVES", 0.0)
    killed = 0
    while True:
        steps = KillAfter(4 + killed)  # the first steps are not saved
        try:
            measure_margin(open_store(store.path), approximate=approximate, progress=steps)
        except Killed:
            killed += 1
            assert killed < uninterrupted.taken, "no step forward"
        else:
            break
    assert killed > 2
    assert margin_files(store) == margin_files(whole)


def test_other_settings_start_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lacuna.margin.tasks.SECONDS_BETWEEN_SAVES", 0.0)
    with pytest.raises(Killed):
        measure_margin(store, 7, progress=KillAfter(12))
    assert (store.path / "margin" / "unfinished" / "all-entries.npz").is_file()
    measure_margin(store, 9)
    assert read_margins(store).values.tolist() == reference_margins(KEYS, KNOWN, 9).tolist()
    assert sorted(margin_files(store)) == ["manifest.json", "margin.npy", "unknown.npy"]


def test_a_damaged_state_is_deleted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lacuna.margin.tasks.SECONDS_BETWEEN_SAVES", 0.0)
    with pytest.raises(Killed):
        measure_margin(store, progress=KillAfter(12))
    state = store.path / "margin" / "unfinished" / "all-entries.npz"
    state.write_bytes(state.read_bytes()[:-100])
    measure_margin(store)
    assert read_margins(store).values.tolist() == reference_margins(KEYS, KNOWN, 2048).tolist()


def test_a_full_disk_is_an_error(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numpy.save", full)
    with pytest.raises(StoreError, match="No space left"):
        measure_margin(store)
    with pytest.raises(StoreError, match="has no margins"):
        read_margins(store)


def test_the_report_has_settings_and_agreement(store: Store) -> None:
    report = measure_margin(store, 16, approximate=NEARBY)
    assert isinstance(report, MarginReport)
    content = report.as_json()
    assert content["approximate"] == {"probes": 2, "lists": 10, "seed": 1, "sample": 300}
    assert set(content["agreement"]["decisions"]) == {"4", "8", "16", "32"}
    assert (content["into"], content["max_margin"], content["measured"]) == (str(store.path / "margin"), 16, True)
