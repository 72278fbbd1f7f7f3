"""Edits of a glossary: what they change, undoing them, their log, kills between its writes, and two at a time."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st

from lacuna.errors import GlossaryError, LockedError, NotFoundError
from lacuna.glossaries import Glossary, Term
from lacuna.glossaries import glossary_edits as edits
from lacuna.glossaries.glossary_edits import add_terms, read_edits, remove_term, undo_edit
from lacuna.glossaries.glossary_files import read_glossary, write_glossary

FILE, FOLDER = Term("Datei", ("file",), note="of a disk"), Term("Ordner", ("folder",))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "terms.tsv"


def terms(path: Path) -> list[Term]:
    return list(read_glossary(path).glossary)


def test_add_replace_remove_and_undo(path: Path) -> None:
    assert read_edits(path) == []
    first = add_terms(path, [FILE, FOLDER])
    assert first is not None
    assert (first.commit, first.action, first.before) == (1, "add", "")
    assert terms(path) == [FILE, FOLDER]

    changed = Term("datei", ("data file",), ("act",))
    replaced = add_terms(path, [changed, FOLDER])
    assert replaced is not None
    assert [(each.position, each.before, each.after) for each in replaced.changes] == [(0, FILE, changed)]
    assert terms(path) == [changed, FOLDER]
    assert add_terms(path, [FOLDER]) is None

    removed = remove_term(path, "DATEI")
    assert removed is not None
    assert [(each.position, each.before, each.after) for each in removed.changes] == [(0, changed, None)]
    assert terms(path) == [FOLDER]

    undone = undo_edit(path, 3)
    assert undone is not None
    assert (undone.commit, undone.action) == (4, "undo")
    assert terms(path) == [changed, FOLDER]
    undo_edit(path, 2)
    assert terms(path) == [FILE, FOLDER]
    assert [each.action for each in read_edits(path)] == ["add", "add", "remove", "undo", "undo"]
    assert undo_edit(path, 1) is not None
    assert terms(path) == []


def test_the_log_is_json_lines_with_the_terms_before_and_after(path: Path) -> None:
    add_terms(path, [FILE])
    remove_term(path, "Datei")
    lines = [json.loads(line) for line in Path(f"{path}.log").read_text(encoding="utf-8").splitlines()]
    assert [(each["commit"], each["action"], len(each["time"])) for each in lines] == [
        (1, "add", 20),
        (2, "remove", 20),
    ]
    assert lines[1]["changes"][0]["before"]["note"] == "of a disk"
    assert lines[1]["changes"][0]["after"] is None


def test_terms_that_differ_in_capitals(path: Path) -> None:
    who, others = Term("WHO", ("WHO",), case_sensitive=True), Term("who", ("wer",), case_sensitive=True)
    add_terms(path, [who, others])
    with pytest.raises(NotFoundError, match=r"source: got 'Who', 2 terms that differ in capitals; write it as in"):
        remove_term(path, "Who")
    remove_term(path, "who", case_sensitive=True)
    assert terms(path) == [who]


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda path: add_terms(path, [Term("Ort", ("place",), ("place",))]), r"'Ort': forbidden: got 'place'"),
        (lambda path: add_terms(path, [Term("Da\ntei", ("x",))]), r"would be read as 'Da tei'"),
        (lambda path: remove_term(path, "Ort"), r"terms.tsv: source: got 'Ort', no such term; write it as"),
        (lambda path: undo_edit(path, 3), r"terms.tsv: commit: got 3; its log has 2 commits, from 1"),
        (lambda path: undo_edit(path, 1), r"commit 1 cannot be undone, because 'Datei' was changed later; undo that"),
    ],
)
def test_an_edit_that_is_refused_changes_nothing(edit: Callable[[Path], object], says: str, path: Path) -> None:
    add_terms(path, [FILE])
    add_terms(path, [Term("Datei", ("data",))])
    before = [each.read_bytes() for each in (path, Path(f"{path}.log"))]
    with pytest.raises((GlossaryError, NotFoundError), match=says):
        edit(path)
    assert [each.read_bytes() for each in (path, Path(f"{path}.log"))] == before


def test_a_file_with_errors_or_other_columns_is_not_edited(path: Path) -> None:
    path.write_text("Datei\t\n", encoding="utf-8")
    with pytest.raises(GlossaryError, match=r"terms.tsv:1: target: got an empty cell"):
        add_terms(path, [FOLDER])
    path.write_text("source\ttarget\tpos\nDatei\tfile\tnoun\n", encoding="utf-8")
    with pytest.raises(GlossaryError, match=r"terms.tsv: an edit would drop the columns pos; remove them first"):
        add_terms(path, [FOLDER])


class KilledError(Exception):
    """The process ended here."""


@pytest.mark.parametrize("cut", [0, 1, 20])
def test_a_kill_between_log_and_file_leaves_the_state_before(
    cut: int, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(*_: object) -> None:
        raise KilledError

    add_terms(path, [FILE])
    monkeypatch.setattr(edits, "write_bytes", kill)
    with pytest.raises(KilledError):
        add_terms(path, [FOLDER])
    monkeypatch.undo()
    log = Path(f"{path}.log")
    content = log.read_bytes()
    assert content.count(b"\n") == 2
    log.write_bytes(content[: len(content) - cut])  # the end of the line may be missing, too
    assert terms(path) == [FILE]
    assert [each.commit for each in read_edits(path)] == [1]
    again = add_terms(path, [FOLDER])
    assert again is not None
    assert again.commit == 2
    assert read_edits(path)[1] == again
    assert log.read_bytes().count(b"\n") == 2


def test_edits_by_hand_are_kept(path: Path) -> None:
    add_terms(path, [FILE])
    by_hand = Term("Taste", ("key",))
    write_glossary(path, Glossary([*terms(path), by_hand]))
    add_terms(path, [FOLDER])
    assert terms(path) == [FILE, by_hand, FOLDER]
    undo_edit(path, 1)
    assert terms(path) == [by_hand, FOLDER]


def test_a_damaged_log_is_refused(path: Path) -> None:
    add_terms(path, [FILE])
    add_terms(path, [FOLDER])
    log = Path(f"{path}.log")
    log.write_text(log.read_text(encoding="utf-8").replace("Datei", "Daten"), encoding="utf-8")
    with pytest.raises(GlossaryError, match=r"terms.tsv.log:1: damaged; restore it, or move it away"):
        read_edits(path)


def test_an_edit_waits_for_another_one_but_not_for_ever(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edits, "WAIT_SECONDS", 0.05)
    with FileLock(path.with_name(".terms.tsv.lock")), pytest.raises(LockedError, match="being edited by another"):
        add_terms(path, [FILE])
    monkeypatch.undo()
    threads = [threading.Thread(target=add_terms, args=(path, [Term(f"Wort {n}", (f"word {n}",))])) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {term.source for term in terms(path)} == {f"Wort {n}" for n in range(8)}
    assert [each.commit for each in read_edits(path)] == list(range(1, 9))


def test_a_link_stays_a_link(path: Path, tmp_path: Path) -> None:
    add_terms(path, [FILE])
    link = tmp_path / "link.tsv"
    link.symlink_to(path)
    add_terms(link, [FOLDER])
    assert link.is_symlink()
    assert terms(path) == [FILE, FOLDER]
    assert len(read_edits(link)) == 2


sources = st.sampled_from(["ab", "Ab", "cd", "ef"])
made_terms = st.builds(Term, sources, st.sampled_from([("x",), ("y", "x")]), case_sensitive=st.just(True))
steps = st.lists(st.one_of(st.lists(made_terms, max_size=3), sources), min_size=1, max_size=5)


@given(steps=steps)
def test_undoing_all_commits_from_the_last_gives_all_earlier_states(
    steps: list[list[Term] | str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("edits") / "terms.tsv"
    add_terms(path, [FILE])
    states, plain = [terms(path)], {FILE.source: FILE}
    for step in steps:
        if isinstance(step, str):
            if step not in plain:
                continue
            done = remove_term(path, step, case_sensitive=True)
            del plain[step]
        else:
            done = add_terms(path, step)
            plain |= {term.source: term for term in step}
        assert terms(path) == list(plain.values())
        if done is not None:
            states.append(terms(path))
    for commit in range(len(states), 1, -1):
        assert terms(path) == states[commit - 1]
        undo_edit(path, commit)
    assert terms(path) == states[0]
