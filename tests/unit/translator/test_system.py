"""Systems: nothing else makes a translator, and what is not given is safe."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import lacuna
from commands import Run
from lacuna.combiners import Adaptive, Gate, Proximity, Vanilla
from lacuna.combiners.gate import Regions, make_gate_network
from lacuna.datastore import build_store
from lacuna.decoding import BeamSettings
from lacuna.errors import CalibrationError, ModelError, SettingError
from lacuna.index import build_index
from lacuna.memory import Memory, open_memory
from lacuna.models import Model
from lacuna.records import Origin, SentencePair
from lacuna.translator import Calibration, System, SystemRecord
from lacuna.translator.retriever import Retriever
from unit.models.tiny_models import Zoo

OBJECTS = {"Ordner": "folder", "Knopf": "button", "Besitzer": "owner", "Server": "server", "Befehl": "command"}
STATES = {"ist leer": "is empty", "ist gesperrt": "is locked", "ist neu": "is new", "fehlt": "is missing"}
ENDS = {"": "", " hier": " here", " noch immer": " still"}
OTHER = "Das Haus ist klein."


@pytest.fixture(scope="module")
def memory(bundled: Model, tmp_path_factory: pytest.TempPathFactory) -> Memory:
    """A memory of 60 pairs about software."""
    pairs = [
        SentencePair(f"Der {thing} {state}{end}.", f"The {named} {said}{last}.", Origin("made up", str(number)))
        for number, (thing, named, state, said, end, last) in enumerate(
            (thing, named, state, said, end, last)
            for thing, named in OBJECTS.items()
            for state, said in STATES.items()
            for end, last in ENDS.items()
        )
    ]
    store = build_store(bundled, pairs, tmp_path_factory.mktemp("memory") / "store")
    build_index(store)
    return open_memory(store.path)


def searching(system: System) -> Retriever:
    retriever = system.retriever()
    assert retriever is not None
    return retriever


def test_nothing_else_makes_a_translator() -> None:
    root = Path(lacuna.__file__).parent
    makers = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Translator"
    }
    assert makers == {"translator/system.py"}


def test_without_a_combiner_a_small_memory_does_not_harm_other_text(
    bundled: Model, memory: Memory, tmp_path: Path, run: Run
) -> None:
    [alone] = System(bundled).open().translate([OTHER])
    [vanilla] = System(bundled, [memory], Vanilla()).open().translate([OTHER])
    assert vanilla.text != alone.text  # a constant weight lets far neighbors in
    [safe] = System(bundled, [memory]).open().translate([OTHER])
    assert safe.text == alone.text
    (tmp_path / "new.txt").write_text(OTHER + "\n", encoding="utf-8")
    store = str(memory.store.path)
    printed = run(["translate", str(tmp_path / "new.txt"), "--memory", store])
    assert printed.strip() == alone.text
    given = run(["translate", str(tmp_path / "new.txt"), "--memory", store, "--knn-weight", "0.5"])
    assert given.strip() == vanilla.text


def test_the_safe_combiner_is_that_of_adapt_for_the_largest_memory(bundled: Model, memory: Memory) -> None:
    few = memory.excluding(range(1, 60))
    assert searching(System(bundled, [few, memory])).combiner.k == Proximity.suited_to(memory).k


def test_a_sentence_of_the_memory_is_translated_as_there(bundled: Model, memory: Memory) -> None:
    [found] = System(bundled, [memory]).open().translate(["Der Besitzer fehlt noch immer."])
    assert found.text == "The owner is missing still."


def test_with_8_bits_every_sentence_of_the_memory_is_translated_as_there(bundled: Model, memory: Memory) -> None:
    pairs = list(memory.sentences.pairs(range(60)).values())
    assert len(pairs) == 60
    rounded = System(bundled, [memory], int8=True).open()
    found = rounded.translate([pair.source for pair in pairs])
    assert [one.text for one in found] == [pair.target for pair in pairs]


def test_8_bits_are_the_default_where_they_are_possible(bundled: Model, memory: Memory, zoo: Zoo) -> None:
    texts = [OTHER, "Der Besitzer fehlt noch immer.", "Heute ist der Server gesperrt."]
    by_default, rounded, exact = (
        [(one.text, one.score) for one in System(bundled, [memory], int8=int8).open().translate(texts)]
        for int8 in (None, True, False)
    )
    assert by_default == rounded
    assert [text for text, _ in rounded] == [text for text, _ in exact]
    assert [score for _, score in rounded] == pytest.approx([score for _, score in exact], abs=0.01)
    assert rounded != exact
    t5, short = zoo.model("t5"), BeamSettings(2, max_new_tokens=8)
    plain = System(t5, beam=short, int8=False).open().translate(["ja"])
    assert System(t5, beam=short).open().translate(["ja"]) == plain
    with pytest.raises(ModelError, match=r"^int8: [^\n]*cannot run with 8-bit weights here[^\n]*$"):
        System(t5, int8=True).open()


def test_a_gate_is_used_only_with_the_entries_that_it_was_made_for(bundled: Model, memory: Memory) -> None:
    regions = Regions(torch.zeros(1, bundled.dimension), torch.zeros(1, 2))
    gate = Gate(regions, make_gate_network(), torch.zeros(4), torch.ones(4), threshold=1e9)
    entries = memory.store.entries
    assert searching(System(bundled, [memory], gate=gate, gate_entries=entries)).gate is gate
    assert searching(System(bundled, [memory], gate=gate)).gate is gate
    assert searching(System(bundled, [memory], gate=gate, gate_entries=entries + 1)).gate is None


def test_records_are_compared_and_saved(bundled: Model, memory: Memory, tmp_path: Path) -> None:
    plain = System(bundled, [memory], Vanilla(k=4), BeamSettings(beam=2))
    record = plain.record()
    assert record == System(bundled, [memory], Vanilla(k=4), BeamSettings(beam=2)).record()
    others = [
        replace(plain, memories=()),
        replace(plain, combiner=Vanilla(k=5)),
        replace(plain, combiner=None),
        replace(plain, beam=BeamSettings(beam=3)),
        replace(plain, exact_contexts=False),
        replace(plain, guard_ends=False),
        replace(plain, int8=True),
        replace(plain, int8=False),
        replace(plain, fallback=True),
        replace(plain, calibration=Calibration((1.0, 0.5), (-2.0, 4.0), (0.1, 0.9), 64)),
        replace(plain, gate=object()),  # type: ignore[arg-type]
    ]
    assert all(other.record() != record for other in others)
    again = SystemRecord.model_validate_json(record.model_dump_json())
    assert again == record
    opened = again.open(tmp_path, bundled)
    assert opened.record() == record
    texts = ["Der Besitzer fehlt noch immer.", OTHER]
    assert [one.text for one in opened.open().translate(texts)] == [one.text for one in plain.open().translate(texts)]


@pytest.mark.parametrize(
    "parts",
    [{"combiner": Adaptive(k=2)}, {"gate": object()}, {"calibration": Calibration((1.0, 0.5), (0.0,), (0.5,), 64)}],
)
def test_what_was_not_saved_is_refused(bundled: Model, memory: Memory, tmp_path: Path, parts: dict[str, Any]) -> None:
    record = System(bundled, [memory], **parts).record()
    with pytest.raises((SettingError, CalibrationError), match=r"not saved|no calibration there"):
        record.open(tmp_path, bundled)


def test_a_record_names_folders_relative_to_its_own(bundled: Model, memory: Memory) -> None:
    folder = Path(memory.store.path)
    assert System(bundled, [memory]).record(folder.parent).memories == (folder.name,)
    assert System(bundled, [memory]).record(folder / "other").memories == (str(folder),)
