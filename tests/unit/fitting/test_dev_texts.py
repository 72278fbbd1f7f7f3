"""Dev translations for comparisons: the best hypotheses, with stand-ins on both sides."""

from __future__ import annotations

from dataclasses import dataclass, field

from lacuna.combiners import Vanilla
from lacuna.corpora.placeholders import mask
from lacuna.fitting.dev_texts import dev_references, dev_texts
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.records import Origin, SentencePair
from lacuna.translator import System

COMBINER = Vanilla(k=4, knn_weight=0.5, temperature=30.0)


@dataclass
class Counted:
    total: float | None = None
    done: float = 0.0
    tasks: list[str] = field(default_factory=list)

    def start(self, what: str, total: float | None = None, unit: str = "") -> None:
        self.total = total
        self.tasks.append(what)

    def advance(self, amount: float = 1.0, note: str = "") -> None:
        self.done += amount

    def finish(self, note: str = "") -> None:
        self.tasks.append("finished")


def test_texts_without_placeholders_are_the_translations(
    bundled: Model, memory: Memory, pairs: list[SentencePair]
) -> None:
    translator, progress = System(bundled, [memory], COMBINER).open(), Counted()
    texts = dev_texts(translator, pairs, progress=progress)
    assert texts == [result.text for result in translator.translate([pair.source for pair in pairs])]
    assert progress.done == progress.total == len(pairs)
    assert progress.tasks == ["translate", "finished"]
    assert dev_references(bundled, pairs) == [pair.target for pair in pairs]


def test_placeholders_are_stand_ins_on_both_sides(bundled: Model, memory: Memory) -> None:
    pair = SentencePair("Die Datei %(name)s wurde gespeichert.", "The file %(name)s was saved.", Origin("made up", "1"))
    [reference], [stand_in] = dev_references(bundled, [pair]), mask(pair.source).stand_ins
    assert reference == f"The file {stand_in} was saved."
    [text] = dev_texts(System(bundled, [memory], COMBINER).open(), [pair])
    assert "%(name)s" not in text
