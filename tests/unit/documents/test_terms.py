"""Terms of a glossary in documents: inside tags, in exact matches, and where they are in a paragraph."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.datastore import build_store
from lacuna.documents import DocumentSettings, DocumentTranslator, Splitter, format_of, translate_file, translate_texts
from lacuna.documents.paragraphs import Paragraph, Sentence, checking, mark_matches, unchecked
from lacuna.documents.sentence_splitting import Piece
from lacuna.glossaries import Glossary, Term
from lacuna.index import build_index
from lacuna.memory import Match, Memory, SegmentMatches, open_memory
from lacuna.models import Model
from lacuna.records import Languages, Origin, SentencePair, TranslatedTerm, Translation
from lacuna.translator import System, Translator

GERMAN = Languages("de", "en")
GLOSSARY = Glossary([Term("Datei", ("record",), ("folder",)), Term("Kiesel", translate=False)])

# The same two segments in every format: a term in tags, and one that is not to be translated; and what is written.
FILES = {
    "a.html": (
        "<p>Das ist eine <b>Datei</b>.</p>\n<p>Öffnen Sie <i>Kiesel</i>.</p>\n",
        ["<p>This is a <b>record</b>.</p>", "<p>Open <i>Kiesel</i>.</p>"],
    ),
    "a.md": (
        "Das ist eine **Datei**.\n\nÖffnen Sie *Kiesel*.\n",
        ["This is a **record**.\n\n", "Open *Kiesel*.\n"],
    ),
    "a.po": (
        'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'
        'msgid "Das ist eine <b>Datei</b>."\nmsgstr ""\n\nmsgid "Öffnen Sie <i>Kiesel</i>."\nmsgstr ""\n',
        ['msgstr "This is a <b>record</b>."', 'msgstr "Open <i>Kiesel</i>."'],
    ),
    "1.2.xlf": (
        '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">'
        '<file original="a" source-language="de" target-language="en" datatype="plaintext"><body>'
        '<trans-unit id="1"><source>Das ist eine <g id="b">Datei</g>.</source></trans-unit>\n'
        '<trans-unit id="2"><source>Öffnen Sie <g id="i">Kiesel</g>.</source></trans-unit>'
        "</body></file></xliff>",
        ['This is a <g id="b">record</g>.</target>', 'Open <g id="i">Kiesel</g>.</target>'],
    ),
    "2.0.xlf": (
        '<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="de" trgLang="en">'
        '<file id="f"><unit id="1"><segment><source>Das ist eine <pc id="b">Datei</pc>.</source></segment></unit>\n'
        '<unit id="2"><segment><source>Öffnen Sie <pc id="i">Kiesel</pc>.</source></segment></unit></file></xliff>',
        ['This is a <pc id="b">record</pc>.</target>', 'Open <pc id="i">Kiesel</pc>.</target>'],
    ),
    "a.tmx": (
        '<tmx version="1.4"><header srclang="de" creationtool="t" creationtoolversion="1" segtype="sentence" '
        'o-tmf="t" adminlang="en" datatype="plaintext"/><body>'
        '<tu><tuv xml:lang="de"><seg>Das ist eine <hi type="b">Datei</hi>.</seg></tuv></tu>\n'
        '<tu><tuv xml:lang="de"><seg>Öffnen Sie <hi type="i">Kiesel</hi>.</seg></tuv></tu></body></tmx>',
        ['<seg>This is a <hi type="b">record</hi>.</seg>', '<seg>Open <hi type="i">Kiesel</hi>.</seg>'],
    ),
    "a.json": (
        '{"a": "Das ist eine <b>Datei</b>.", "b": "Öffnen Sie <i>Kiesel</i>."}',
        ['"This is a <b>record</b>."', '"Open <i>Kiesel</i>."'],
    ),
    "a.txt": (
        "Das ist eine <b>Datei</b>.\n\nÖffnen Sie <i>Kiesel</i>.\n",
        ["This is a <b>record</b>.\n\n", "Open <i>Kiesel</i>.\n"],
    ),
}


@pytest.fixture(scope="module")
def translator(bundled: Model) -> Translator:
    return System(bundled, glossary=GLOSSARY).open()


@pytest.mark.parametrize("name", FILES)
def test_terms_in_tags_are_kept_with_their_tags(translator: Translator, tmp_path: Path, name: str) -> None:
    content, expected = FILES[name]
    (tmp_path / name).write_text(content, encoding="utf-8")
    into = tmp_path / f"translated{Path(name).suffix}"
    report = translate_file(translator, tmp_path / name, into)
    assert (report.segments, report.translated, report.review) == (2, 2, 0)
    written = into.read_text(encoding="utf-8")
    assert [each for each in expected if each not in written] == []


@pytest.fixture(scope="module")
def memory(bundled: Model, tmp_path_factory: pytest.TempPathFactory) -> Memory:
    pairs = [
        SentencePair("Die Datei ist voll.", "The file is full.", Origin("made up", "1")),
        SentencePair("Die Datei ist leer.", "The record is empty, not the folder.", Origin("made up", "2")),
        SentencePair("Die Datei ist alt.", "The record is old.", Origin("made up", "3")),
    ]
    folder = tmp_path_factory.mktemp("memory") / "it"
    build_index(build_store(bundled, pairs, folder))
    return open_memory(folder)


def test_exact_matches_stay_but_are_reported_with_the_reasons(bundled: Model, memory: Memory, tmp_path: Path) -> None:
    text = "Die Datei ist voll.\n\nDie Datei ist leer.\n\nDie Datei ist alt.\n"
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    made_with = System(bundled, [memory], glossary=GLOSSARY).open()
    report = translate_file(made_with, tmp_path / "a.txt", tmp_path / "b.txt")
    written = "The file is full.\n\nThe record is empty, not the folder.\n\nThe record is old.\n"
    assert (tmp_path / "b.txt").read_text(encoding="utf-8") == written
    assert (report.matched, report.translated, report.review) == (3, 0, 2)
    assert [(each.text, each.reason) for each in report.least_sure] == [
        ("The file is full.", "term missing: Datei (record)"),
        ("The record is empty, not the folder.", "forbidden term: folder"),
    ]
    without = System(bundled, [memory]).open()
    assert translate_file(without, tmp_path / "a.txt", tmp_path / "c.txt").review == 0


class Held(SegmentMatches):
    """A memory that has any sentence with the translation that it got."""

    def __init__(self) -> None:
        super().__init__([])

    def holding(self, text: str, translation: str) -> Match | None:
        return Match("it", 0, SentencePair(text, translation, Origin("f", "1")), 1.0, translation)


def test_sentences_of_a_memory_lose_their_flag_but_not_that_of_terms() -> None:
    check = checking(GLOSSARY, GERMAN, ())
    sentences = tuple(
        Sentence("Die Datei", Translation("Die Datei", text, 0.0, 1, flag="looks cut off"), Piece(text, ""))
        for text in ("the file", "the record", "the record folder")
    )
    marked = mark_matches(Paragraph("x", sentences), Held(), check).sentences
    assert [each.translation.flag for each in marked if each.translation] == [
        "term missing: Datei (record)",
        "",
        "forbidden term: folder",
    ]
    assert [each.match for each in marked] == ["it"] * 3
    assert checking(None, GERMAN, ()) is checking(GLOSSARY, None, ()) is unchecked
    assert unchecked("Die Datei", "the file") == ""


def test_a_match_to_review_is_marked_in_the_file() -> None:
    class Exact(Held):
        def exact(self, text: str) -> Match | None:
            return self.holding(text, "Open the file")

    def nothing(groups: Iterable[Sequence[str]]) -> Iterator[list[Translation]]:
        return ([] for _ in groups)

    splitter = Splitter(GERMAN, lambda text: True)
    catalog = b'msgid "Datei"\nmsgstr ""\n'
    for check, is_fuzzy in ((unchecked, False), (checking(GLOSSARY, GERMAN, ()), True)):
        documents = DocumentTranslator(nothing, splitter, Exact(), DocumentSettings(), check=check)
        out = io.BytesIO()
        documents.translate_stream(io.BytesIO(catalog), out, format_of("a.po"), "a.po")
        assert b"Open the file" in out.getvalue()
        assert (b"#, fuzzy" in out.getvalue()) == is_fuzzy


WORDS = st.text(st.sampled_from("ab é漢"), min_size=1, max_size=8).map(str.strip).filter(bool)
GAPS = st.sampled_from(["", " ", "\n", "\n\n  ", "\u2003"])


@st.composite
def paragraphs(draw: st.DrawFn) -> Paragraph:
    """A paragraph, each sentence of which has at most one term."""
    pieces = draw(st.lists(st.tuples(WORDS, GAPS, WORDS, GAPS, st.integers(0, 2)), min_size=1, max_size=5))
    sentences, source = [], draw(GAPS)
    for text, gap, written, new_gap, kind in pieces:
        start, end = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
        target = draw(st.integers(-1, len(written) - 1))
        form = written[target : target + 2] if target >= 0 else ""
        terms = (TranslatedTerm("t", start, end, (), form, target, True),) if kind == 2 else ()
        without = written + "!" if kind == 2 else ""
        made = Translation(text, written, 0.0, 1, terms=terms, without_glossary=without) if kind else None
        sentences.append(Sentence(text, made, Piece(written, new_gap)))
        source += text + gap
    return Paragraph(source, tuple(sentences))


@given(paragraphs())
def test_places_in_a_paragraph_are_those_in_its_sentences(paragraph: Paragraph) -> None:
    made = [each.translation for each in paragraph.sentences if each.translation is not None and each.translation.terms]
    assert len(paragraph.terms) == len(made)
    for term, translation in zip(paragraph.terms, made, strict=True):
        [own] = translation.terms
        assert paragraph.source[term.start : term.end] == translation.source[own.start : own.end]
        assert (term.target_start == -1) == (own.target_start == -1)
        if term.target_start >= 0:
            assert paragraph.text[term.target_start :].startswith(term.target)
    parts = [
        each.written.text + "!" * bool(each.translation and each.translation.terms) + each.written.gap
        for each in paragraph.sentences
    ]
    assert paragraph.without_glossary == ("".join(parts) if made else "")


def test_a_repeated_sentence_has_places_of_its_own() -> None:
    def sentence() -> Sentence:
        term = TranslatedTerm("Datei", 4, 9, ("file",), "file", 4, True)
        return Sentence(
            "Die Datei", Translation("Die Datei", "The file", 0.0, 1, terms=(term,)), Piece("The file", "\n")
        )

    paragraph = Paragraph("Die Datei\nDie Datei", (sentence(), sentence()))
    assert [(term.start, term.end, term.target_start) for term in paragraph.terms] == [(4, 9, 4), (14, 19, 13)]


def test_places_in_real_paragraphs(translator: Translator) -> None:
    text = "  Guten Tag! Das ist eine Datei.\n\n\nDie Datei ist leer, Herr Kiesel."
    [paragraph] = translate_texts(translator, [text])
    assert [text[term.start : term.end] for term in paragraph.terms] == ["Datei", "Datei", "Kiesel"]
    for term in paragraph.terms:
        assert paragraph.text[term.target_start :].startswith(term.target)
        assert term.target
