"""Documents are translated in a stream, keep what they have, and report what a person should see."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import polib
import pytest

import lacuna
from lacuna.documents import DocumentSettings, DocumentTranslator, Splitter, format_of
from lacuna.documents.base import DocumentSegment, Filled
from lacuna.documents.translation import MAX_REVIEWED, REVIEW_BELOW, DocumentReport, check_files
from lacuna.errors import DocumentError, SettingError
from lacuna.memory import Match, SegmentMatches
from lacuna.records import Languages, Origin, SentencePair, Translation

CATALOG = """\
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Language: en\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

#: a.c:1
msgid "Datei öffnen"
msgstr "Open the file"

msgid "Datei %s schließen"
msgstr ""

msgid "%d Datei"
msgid_plural "%d Dateien"
msgstr[0] ""
msgstr[1] ""

msgid "%s"
msgstr ""
"""


class Shouting:
    """Translates by upper case, and is less sure of longer sentences."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, groups: Iterable[Sequence[str]]) -> Iterator[list[Translation]]:
        for group in groups:
            self.asked += group
            yield [self._shouted(text) for text in group]

    def _shouted(self, text: str) -> Translation:
        flag = "flagged" if "Flagge" in text else ""
        shouted = "".join(letter.upper() if letter not in "sd" else letter for letter in text)
        return Translation(text, shouted, 0.0, 1, flag=flag, confidence=1 / len(text))


class OneMatch(SegmentMatches):
    def __init__(self) -> None:
        super().__init__([])

    def exact(self, text: str) -> Match | None:
        if text != "Datei %s schließen":
            return None
        return Match("it", 0, SentencePair(text, "Close file %s", Origin("f", "1")), 1.0, "Close file %s")


def translator(settings: DocumentSettings | None = None, matches: SegmentMatches | None = None) -> DocumentTranslator:
    splitter = Splitter(Languages("de", "en"), lambda text: True)
    return DocumentTranslator(Shouting(), splitter, matches, settings)


def translated(text: str, name: str = "a.po", **options: object) -> tuple[str, DocumentReport]:
    out = io.BytesIO()
    chosen = translator(**options)  # type: ignore[arg-type] - as given
    report = chosen.translate_stream(io.BytesIO(text.encode()), out, format_of(name), name)
    return out.getvalue().decode(), report


def test_only_what_is_missing_is_translated() -> None:
    written, report = translated(CATALOG)
    entries = {entry.msgid: entry for entry in polib.pofile(written)}
    assert entries["Datei öffnen"].msgstr == "Open the file"
    assert entries["Datei %s schließen"].msgstr == "DATEI %s sCHLIEssEN".replace("ss", "SS")
    assert entries["%d Datei"].msgstr_plural == {0: "%d DATEI", 1: "%d DATEIEN"}
    assert entries["%s"].msgstr == "%s"
    assert (report.segments, report.translated, report.kept, report.matched) == (5, 3, 2, 0)
    assert "#: a.c:1\n" in written


def test_overwrite_and_matches() -> None:
    written, report = translated(CATALOG, settings=DocumentSettings(overwrite=True), matches=OneMatch())
    entries = {entry.msgid: entry.msgstr for entry in polib.pofile(written)}
    assert entries["Datei öffnen"] == "dATEI ÖFFNEN".replace("d", "D")
    assert entries["Datei %s schließen"] == "Close file %s"
    assert (report.translated, report.matched) == (3, 1)
    written, report = translated(CATALOG, settings=DocumentSettings(exact_matches=False), matches=OneMatch())
    assert "Close file" not in written
    assert report.matched == 0


def test_a_complete_file_stays_the_same_byte_for_byte() -> None:
    text = "Nur 1 %\r\n\r\n***\r\n"
    assert translated(text.replace("Nur ", ""), "a.txt")[0] == text.replace("Nur ", "")
    complete = CATALOG.split('msgid "Datei %s')[0]
    assert translated(complete)[0] == complete


def test_the_least_sure_come_first() -> None:
    text = "Ein kurzer Satz.\nKurz.\nEine Flagge.\nDas ist nun ein viel längerer Satz.\n"
    _, report = translated(text, "a.txt", settings=DocumentSettings(review_below=0.1))
    assert [(one.source, one.reason) for one in report.least_sure] == [
        ("Eine Flagge.", "flagged"),
        ("Das ist nun ein viel längerer Satz.", "low confidence"),
        ("Ein kurzer Satz.", "low confidence"),
    ]
    assert report.review == 3
    assert report.as_json()["least_sure"][0]["place"] == "3"


def test_an_unknown_confidence_is_not_taken_for_a_good_one() -> None:
    def unsure(away: bool, groups: Iterable[Sequence[str]]) -> Iterator[list[Translation]]:
        for group in groups:
            known = {text: "zwei" not in text for text in group}
            yield [
                Translation(text, text, 0.0, 1, without_memory=away and not sure, confidence=0.9 if sure else None)
                for text, sure in known.items()
            ]

    def reviewed(below: float | None, away: bool = False) -> list[tuple[str, str]]:
        splitter, settings = Splitter(Languages("de", "en"), lambda text: True), DocumentSettings(review_below=below)
        documents = DocumentTranslator(partial(unsure, away), splitter, OneMatch(), settings)
        text = io.BytesIO(b"eins\n\nzwei\n\n12\n")
        report = documents.translate_stream(text, io.BytesIO(), format_of("a.txt"), "a.txt")
        return [(one.source, one.reason) for one in report.least_sure]

    assert reviewed(0.5) == [("zwei", "confidence unknown")]
    assert reviewed(None) == []  # there is no calibration
    assert reviewed(None, away=True) == reviewed(0.5)
    assert reviewed(0.0, away=True) == []


def test_changed_placeholders_are_flagged() -> None:
    _, report = translated("Satz mit {name}.\n", "a.txt")
    assert [one.reason for one in report.least_sure] == ["other placeholders than in the source"]


def test_a_report_is_bounded() -> None:
    report = DocumentReport("text")
    for number in range(3 * MAX_REVIEWED):
        report.add(str(number), "a", Filled("b", (number * 7919 % 1000) / 1000, True, "low confidence"))
    sure = [one.confidence for one in report.least_sure]
    assert report.review == 3 * MAX_REVIEWED
    assert len(sure) == MAX_REVIEWED
    assert sure == sorted(sure)
    assert max(sure) < 0.34


def test_parts_are_written_while_others_are_read() -> None:
    read = 0

    def parts() -> Iterator[bytes | DocumentSegment]:
        nonlocal read
        for number in range(10_000):
            read += 1
            if number % 2:
                yield b"x" * 1000
            else:
                yield DocumentSegment(b"Ja", ("Ja",), lambda filled: filled[0].text.encode())

    written = translator().translate_parts(parts(), DocumentReport("test"))
    assert b"".join(next(written) for _ in range(4)) == (b"JA" + b"x" * 1000) * 2
    assert read < 10


def test_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Ja.\n")
    translator().translate_file(tmp_path / "a.txt", tmp_path / "b.txt")
    assert (tmp_path / "b.txt").read_text() == "JA.\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt"]


def test_nothing_is_written_if_the_file_is_broken(tmp_path: Path) -> None:
    (tmp_path / "a.po").write_text('msgid "Ja"\nmsgstr "\n')
    with pytest.raises(DocumentError, match=r"a\.po:2"):
        translator().translate_file(tmp_path / "a.po", tmp_path / "b.po")
    assert [path.name for path in tmp_path.iterdir()] == ["a.po"]


def test_bad_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Ja.\n")
    for source, into, message in [
        ("none.txt", "b.txt", "no such file"),
        ("a.txt", "a.txt", "the file itself"),
        ("a.txt", "b.po", "the same suffix"),
        ("a.txt", "", "cannot be a file"),
    ]:
        with pytest.raises(DocumentError, match=message):
            check_files(tmp_path / source, tmp_path / into)
    with pytest.raises(DocumentError, match=r"allowed: \.txt"):
        format_of("a.docx")
    with pytest.raises(SettingError, match="review_below"):
        DocumentSettings(review_below=2)


FUZZY = """\
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\nLanguage: en\\n"

#, fuzzy
#| msgid "Datei"
msgid "{}"
msgstr "An old draft %s"
"""


def written(content: str, name: str, made: DocumentTranslator) -> tuple[str, DocumentReport]:
    out = io.BytesIO()
    report = made.translate_stream(io.BytesIO(content.encode()), out, format_of(name), name)
    return out.getvalue().decode(), report


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_machine_translation_of_a_fuzzy_message_stays_fuzzy(overwrite: bool) -> None:
    settings = DocumentSettings(overwrite, review_below=0)
    text, report = written(FUZZY.format("Ordner"), "a.po", translator(settings))
    [entry] = polib.pofile(text)
    assert (entry.msgstr, entry.fuzzy, entry.previous_msgid) == ("ORdNER", True, "Datei")
    assert (report.translated, report.review) == (1, 1)
    assert report.least_sure[0].reason == "was marked as unfinished before"


def test_a_fuzzy_message_with_an_exact_match_is_finished() -> None:
    text, report = written(FUZZY.format("Datei %s schließen"), "a.po", translator(matches=OneMatch()))
    [entry] = polib.pofile(text)
    assert (entry.msgstr, entry.fuzzy, report.matched, report.review) == ("Close file %s", False, 1, 0)


XLIFF_1 = (
    '<xliff version="1.2"><file source-language="de" target-language="en"><body><trans-unit id="a">'
    '<source>Ordner</source><target state="{}">{}</target></trans-unit></body></file></xliff>'
)
XLIFF_2 = (
    '<xliff version="2.0" srcLang="de" trgLang="en"><file id="f"><unit id="a"><segment state="{}">'
    "<source>Ordner</source><target>{}</target></segment></unit></file></xliff>"
)
TMX = (
    '<tmx version="1.4"><header srclang="de"/><body><tu><tuv xml:lang="de"><seg>Ordner</seg></tuv>'
    '<tuv xml:lang="en"><prop type="{}">why</prop><seg>{}</seg></tuv></tu></body></tmx>'
)


@pytest.mark.parametrize(
    ("form", "name", "state", "old", "overwrite", "review"),
    [
        (XLIFF_1, "a.xlf", "needs-adaptation", "A draft", False, True),
        (XLIFF_1, "a.xlf", "new", "A draft", False, True),
        (XLIFF_1, "a.xlf", "new", "Ordner", False, False),  # a copy of the source
        (XLIFF_1, "a.xlf", "new", "", False, False),
        (XLIFF_1, "a.xlf", "needs-review-translation", "A draft", True, True),
        (XLIFF_1, "a.xlf", "final", "Done", True, False),
        (XLIFF_2, "a.xlf", "initial", "A draft", False, True),
        (XLIFF_2, "a.xlf", "initial", "Ordner", False, False),
        (XLIFF_2, "a.xlf", "final", "Done", True, False),
        (TMX, "a.tmx", "x-lacuna-review", "A draft", True, True),
        (TMX, "a.tmx", "x-lacuna-confidence", "Done", True, False),
    ],
)
def test_what_is_unfinished_stays_unfinished(
    form: str, name: str, state: str, old: str, overwrite: bool, review: bool
) -> None:
    settings = DocumentSettings(overwrite, review_below=0)
    text, report = written(form.format(state, old), name, translator(settings))
    assert "ORdNER" in text
    assert "final" not in text
    assert report.review == review
    assert ("needs-review" in text or "x-lacuna-review" in text) == review


@pytest.mark.parametrize(("given", "review"), [(None, True), (0.0, False), (0.1, False), (0.7, True)])
def test_the_review_by_default_is_below_a_fixed_confidence(given: float | None, review: bool) -> None:
    settings = DocumentSettings(review_below=given)
    _, report = written("Wort", "a.txt", translator(settings))  # the confidence is 0.25
    assert report.review == review


def test_the_page_has_the_same_bound_of_confidence() -> None:
    page = Path(lacuna.__file__).with_name("serving") / "page"
    assert f"const LOW = {REVIEW_BELOW};" in (page / "paragraph.js").read_text(encoding="utf-8")
    field = next(line for line in (page / "index.html").read_text().splitlines() if 'id="review-below"' in line)
    assert f'value="{REVIEW_BELOW:.0%}"'.replace("%", "") in field
