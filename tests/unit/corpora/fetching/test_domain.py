import json
from pathlib import Path

import pytest

from lacuna.artifacts.files import sha256_of
from lacuna.corpora.fetching import FetchReport, domain, fetch_domain, load_registry
from lacuna.demo import PACKAGES
from lacuna.errors import FetchError
from lacuna.records import Languages

from .conftest import Shelf


def run(
    shelf: Shelf, into: Path, languages: str = "de-en", seed: int = 1, dev: int = 10, packages: tuple[str, ...] = ()
) -> FetchReport:
    return fetch_domain(
        "toy",
        Languages.parse(languages),
        into,
        packages=packages,
        dev=dev,
        test=10,
        seed=seed,
        cache=into.parent / "cache",
        download=shelf.download,
        registry=shelf.registry,
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def sources(path: Path) -> set[str]:
    return {line.split("\t")[0] for line in path.read_text(encoding="utf-8").splitlines()}


@pytest.mark.parametrize("languages", ["de-en", "en-de", "zh-en", "en-zh_Hans", "de-zh"])
def test_every_direction_is_written_and_no_source_is_on_two_sides(shelf: Shelf, tmp_path: Path, languages: str) -> None:
    report = run(shelf, tmp_path / "out", languages)
    parts = [sources(tmp_path / "out" / name) for name in ("train.tsv", "dev.tsv", "test.tsv")]
    assert [len(part) for part in parts] == list(report.pairs.values())
    assert len(set.union(*parts)) == sum(map(len, parts)) == report.total
    assert len(parts[1]) == len(parts[2]) == 10
    assert {"Öffnen", "Open", "打开"} & parts[0]  # a label is for training only


def test_placeholders_are_in_the_files(shelf: Shelf, tmp_path: Path) -> None:
    run(shelf, tmp_path / "out")
    lines = (tmp_path / "out" / "dev.tsv").read_text(encoding="utf-8").splitlines()
    assert all(line.count("%s") == 2 and line.count("{name}") == 2 for line in lines if "\tapp" in line)


def test_the_same_command_gives_the_same_bytes_and_another_seed_another_split(shelf: Shelf, tmp_path: Path) -> None:
    run(shelf, tmp_path / "one")
    run(shelf, tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    run(shelf, tmp_path / "two", seed=2)
    assert contents(tmp_path / "one")["dev.tsv"] != contents(tmp_path / "two")["dev.tsv"]


def test_the_manifest_says_what_is_there(shelf: Shelf, tmp_path: Path) -> None:
    report = run(shelf, tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["files"]["train.tsv"]["sha256"] == sha256_of(tmp_path / "out" / "train.tsv")
    assert [package["license"] for package in manifest["packages"]] == ["MIT", "MIT"]
    assert sum(package.pairs for package in report.packages) == manifest["cleaning"]["kept"] == 102
    assert sorted(report.sample(200)) == sorted(report.sample(report.pairs["train"]))


def test_what_is_there_is_not_made_again(shelf: Shelf, tmp_path: Path) -> None:
    first = run(shelf, tmp_path / "out")
    before = (tmp_path / "out" / "train.tsv").stat().st_mtime_ns
    again = run(shelf, tmp_path / "out")
    assert (first.already_there, again.already_there) == (False, True)
    assert (tmp_path / "out" / "train.tsv").stat().st_mtime_ns == before
    assert again.pairs == first.pairs
    (tmp_path / "out" / "dev.tsv").write_text("changed", encoding="utf-8")
    assert not run(shelf, tmp_path / "out").already_there


def test_an_interruption_leaves_the_old_files(shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(shelf, tmp_path / "out")
    before = contents(tmp_path / "out")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(domain, "write_json", stop)
    with pytest.raises(KeyboardInterrupt):
        run(shelf, tmp_path / "out", seed=2)
    assert contents(tmp_path / "out") == before


def test_a_half_published_folder_is_completed(shelf: Shelf, tmp_path: Path) -> None:
    run(shelf, tmp_path / "out")
    before = contents(tmp_path / "out")
    (tmp_path / "out" / "test.tsv").unlink()
    (tmp_path / "out" / ".fetch-left").mkdir()
    run(shelf, tmp_path / "out")
    (tmp_path / "out" / ".fetch-left").rmdir()
    assert contents(tmp_path / "out") == before


@pytest.mark.parametrize("name", ["thesis.txt", "train.tsv"])
def test_the_files_of_others_are_not_touched(shelf: Shelf, tmp_path: Path, name: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("mine", encoding="utf-8")
    with pytest.raises(FetchError, match=name):
        run(shelf, tmp_path / "out")
    assert contents(tmp_path / "out") == {name: b"mine"}
    assert shelf.asked == []


def test_errors_say_what_is_allowed(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="choose two different languages from en, de, zh"):
        run(shelf, tmp_path / "out", "fr-en")
    with pytest.raises(FetchError, match="both sides of zh-zh_CN"):
        run(shelf, tmp_path / "out", "zh-zh_CN")
    with pytest.raises(FetchError, match="`dev`"):
        run(shelf, tmp_path / "out", dev=1000)
    with pytest.raises(FetchError, match=r"allowed are toy; did you mean toy\?"):
        fetch_domain("tou", Languages("de", "en"), tmp_path, registry=shelf.registry)
    (tmp_path / "file").touch()
    with pytest.raises(FetchError, match="is a file"):
        run(shelf, tmp_path / "file")
    assert not (tmp_path / "out").exists()


def test_the_registry_is_sound() -> None:
    registry = load_registry()
    assert len({package.name for package in registry.packages}) == len(registry.packages)
    for package in registry.packages:
        assert len(package.sha256) == 64
        assert package.filename.endswith(".whl")
        assert set(package.domains) <= set(registry.domains)
        assert package.license
        assert "en" not in package.languages
        assert all(glob.count("{locale}") == 1 for glob in package.catalogs)
    for name in registry.domains:
        assert {"de", "fr", "zh"} <= set(registry.languages_of(name))


def test_some_packages_only(shelf: Shelf, tmp_path: Path) -> None:
    report = run(shelf, tmp_path / "out", packages=("App",))  # as pip, in any spelling
    assert shelf.asked == ["app"]
    assert [package.name for package in report.packages] == ["app"]
    everything = run(shelf, tmp_path / "out")
    assert not everything.already_there
    assert everything.total == report.total + 1
    both = run(shelf, tmp_path / "out", packages=("home", "app"))
    assert both.already_there  # the order of the names does not matter


def test_an_unknown_package_is_refused_with_the_known_ones(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(
        FetchError, match=r"^packages: got 'other'; the packages that domain toy has for de-en are app, home$"
    ):
        run(shelf, tmp_path / "out", packages=("app", "other"))
    assert shelf.asked == []


def test_the_packages_of_the_demo() -> None:
    chosen = load_registry().packages_of("it", Languages("de", "en"), PACKAGES)
    assert len(chosen) == len(PACKAGES)
    assert sum(package.size for package in chosen) < 100e6
