"""TMX and XLIFF: languages, inline markup, ids, safety."""

import gzip
from collections.abc import Iterable
from pathlib import Path

import pytest

from lacuna.corpora import read_corpus
from lacuna.errors import CorpusError
from lacuna.records import Languages, SentencePair

DE_EN = Languages("de", "en")
EN_DE = Languages("en", "de")


def tmx(*units: tuple[str | None, list[tuple[str, str]]], srclang: str = "en", doctype: str = "") -> str:
    body = "".join(
        f"<tu{f' tuid={name!r}' if name else ''}>"
        + "".join(f'<tuv xml:lang="{lang}"><seg>{text}</seg></tuv>' for lang, text in segments)
        + "</tu>\n"
        for name, segments in units
    )
    return (
        f'<?xml version="1.0"?>\n{doctype}<tmx version="1.4"><header srclang="{srclang}"/><body>\n{body}</body></tmx>\n'
    )


def xliff1(units: str, source: str = "en", target: str | None = "de") -> str:
    attributes = f'source-language="{source}"' + (f' target-language="{target}"' if target else "")
    return (
        '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">\n'
        f'<file original="f" {attributes}><body>{units}</body></file></xliff>'
    )


def xliff2(units: str) -> str:
    return (
        '<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en-US" trgLang="de-DE">'
        f'<file id="f1">{units}</file></xliff>'
    )


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def found(pairs: Iterable[SentencePair]) -> list[tuple[str, str, str]]:
    return [(pair.source, pair.target, pair.origin.place) for pair in pairs]


def test_tmx_takes_the_languages_asked_for(tmp_path: Path) -> None:
    text = tmx(
        ("u1", [("en-US", "Open"), ("fr", "Ouvrir"), ("DE-de", "Öffnen")]),
        (None, [("en", "Close"), ("de", "Schließen")]),
        ("u3", [("en", "No German"), ("fr", "Rien")]),
        ("u4", [("en", "Untranslated"), ("de", "  ")]),
    )
    path = write(tmp_path / "a.tmx", text)
    assert found(read_corpus(path, languages=DE_EN)) == [("Öffnen", "Open", "u1"), ("Schließen", "Close", "2")]
    assert found(read_corpus(path, languages=EN_DE)) == [("Open", "Öffnen", "u1"), ("Close", "Schließen", "2")]


def test_tmx_prefers_the_exact_language(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tmx", tmx(("u", [("de-AT", "Paradeiser"), ("de", "Tomate"), ("en", "tomato")])))
    assert found(read_corpus(path, languages=DE_EN)) == [("Tomate", "tomato", "u")]
    assert found(read_corpus(path, languages=Languages("de_AT", "en"))) == [("Paradeiser", "tomato", "u")]


def test_tmx_of_two_languages_needs_no_asking(tmp_path: Path) -> None:
    units = [("a", [("de", "ja"), ("en", "yes")]), ("b", [("en", "no"), ("de", "nein")])]
    path = write(tmp_path / "a.tmx", tmx(*units, srclang="en"))
    assert found(read_corpus(path)) == [("yes", "ja", "a"), ("no", "nein", "b")]
    path = write(tmp_path / "b.tmx", tmx(*units, srclang="*all*"))
    assert found(read_corpus(path)) == [("ja", "yes", "a"), ("nein", "no", "b")]


def test_tmx_of_three_languages_needs_asking(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tmx", tmx(("a", [("de", "ja"), ("en", "yes")]), ("b", [("fr", "non"), ("de", "nein")])))
    stream = read_corpus(path)
    assert next(stream).target == "ja"
    with pytest.raises(CorpusError, match=r"a\.tmx:4: languages are missing; the file has de, en, fr: choose two"):
        next(stream)


def test_tmx_keeps_text_and_leaves_out_codes(tmp_path: Path) -> None:
    marked = 'Press <bpt i="1">&lt;b&gt;</bpt><hi>OK</hi><ept i="1">&lt;/b&gt;</ept> &amp; wait<!-- not --> here'
    path = write(tmp_path / "a.tmx", tmx(("u", [("en", marked), ("de", "x<ph>{0}</ph>y")])))
    assert found(read_corpus(path)) == [("Press OK & wait here", "xy", "u")]


def test_tmx_with_the_usual_doctype(tmp_path: Path) -> None:
    text = tmx(("u", [("en", "yes"), ("de", "ja")]), doctype='<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n')
    assert found(read_corpus(write(tmp_path / "a.tmx", text))) == [("yes", "ja", "u")]


def test_tmx_in_utf16_and_compressed(tmp_path: Path) -> None:
    text = tmx(("u", [("en", "yes"), ("de", "jä")])).replace('version="1.0"?', 'version="1.0" encoding="UTF-16"?')
    (tmp_path / "a.tmx.gz").write_bytes(gzip.compress(text.encode("utf-16")))
    assert found(read_corpus(tmp_path / "a.tmx.gz")) == [("yes", "jä", "u")]


def test_tmx_with_the_old_lang_attribute(tmp_path: Path) -> None:
    text = tmx(("u", [("en", "yes"), ("de", "ja")])).replace("xml:lang", "lang")
    assert found(read_corpus(write(tmp_path / "a.tmx", text))) == [("yes", "ja", "u")]


def test_entities_are_neither_expanded_nor_lost(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    for definition in ('"boom"', f'SYSTEM "file://{tmp_path}/secret"'):
        doctype = f"<!DOCTYPE tmx [<!ENTITY e {definition}>]>\n"
        path = write(tmp_path / "a.tmx", tmx(("u", [("en", "a &e; b"), ("de", "c")]), doctype=doctype))
        with pytest.raises(CorpusError, match="uses the entity &e;, and entities are not expanded"):
            list(read_corpus(path))


def test_a_long_tmx_is_read_through(tmp_path: Path) -> None:
    units = [(None, [("en", f"number {number}"), ("de", f"Nummer {number}")]) for number in range(5000)]
    pairs = list(read_corpus(write(tmp_path / "a.tmx", tmx(*units))))
    assert len(pairs) == 5000
    assert found(pairs[-1:]) == [("number 4999", "Nummer 4999", "5000")]


UNITS1 = """
<trans-unit id="a"><source>Press <g id="1">OK</g><x id="2"/></source><target>Drücke <g id="1">OK</g></target>
  <alt-trans><source>no</source><target>nein</target></alt-trans></trans-unit>
<group><trans-unit><source>Close</source><target state="translated">Schließen</target></trans-unit></group>
<trans-unit id="c"><source>Untranslated</source></trans-unit>
<trans-unit id="d"><source>Draft</source><target state="needs-translation">Entwurf</target></trans-unit>
"""


@pytest.mark.parametrize("suffix", [".xlf", ".xliff"])
def test_xliff_1(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"a{suffix}", xliff1(UNITS1, "en-US", "de-DE"))
    golden = [("Press OK", "Drücke OK", "a"), ("Close", "Schließen", "2")]
    assert found(read_corpus(path)) == golden
    assert found(read_corpus(path, languages=EN_DE)) == golden
    assert found(read_corpus(path, languages=DE_EN)) == [(right, left, place) for left, right, place in golden]


def test_xliff_1_without_namespace_and_target_language(tmp_path: Path) -> None:
    text = xliff1(UNITS1, target=None).replace(' xmlns="urn:oasis:names:tc:xliff:document:1.2"', "")
    assert [pair.source for pair in read_corpus(write(tmp_path / "a.xlf", text), languages=DE_EN)] == [
        "Drücke OK",
        "Schließen",
    ]


def test_xliff_ids_of_further_files_carry_the_file(tmp_path: Path) -> None:
    unit = '<body><trans-unit id="1"><source>a</source><target>b</target></trans-unit></body>'
    files = "".join(f'<file original="{name}" source-language="en" target-language="de">{unit}</file>' for name in "pq")
    path = write(tmp_path / "a.xlf", f'<xliff version="1.2">{files}</xliff>')
    assert [pair.origin.place for pair in read_corpus(path)] == ["1", "q/1"]


def test_xliff_2(tmp_path: Path) -> None:
    units = """
    <unit id="u1"><segment><source>Press <pc id="1">OK</pc><ph id="2"/></source>
      <target>Drücke <pc id="1">OK</pc></target></segment></unit>
    <unit id="u2"><segment id="s1"><source>One.</source><target>Eins.</target></segment>
      <ignorable><source> </source></ignorable>
      <segment state="final"><source>Two.</source><target>Zwei.</target></segment>
      <segment state="initial"><source>Three.</source><target>Three.</target></segment></unit>
    """
    path = write(tmp_path / "a.xlf", xliff2(units))
    golden = [("Press OK", "Drücke OK", "u1"), ("One.", "Eins.", "u2/s1"), ("Two.", "Zwei.", "u2/2")]
    assert found(read_corpus(path, languages=EN_DE)) == golden
    assert found(read_corpus(path, languages=DE_EN)) == [(right, left, place) for left, right, place in golden]


@pytest.mark.parametrize("text", [xliff1(UNITS1, "en", "fr"), xliff2("")])
def test_xliff_of_other_languages_is_refused(tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "a.xlf", text)
    with pytest.raises(CorpusError, match=r"the file is en.*, but the languages asked for are de-it; give the"):
        list(read_corpus(path, languages=Languages("de", "it")))


@pytest.mark.parametrize("namespace", ["urn:a}b", "}", "{x}y"])
def test_a_broken_namespace_is_a_line(tmp_path: Path, namespace: str) -> None:
    units = '<trans-unit id="1"><source>yes</source><target>ja</target></trans-unit>'
    text = xliff1(units).replace("urn:oasis:names:tc:xliff:document:1.2", namespace)
    with pytest.raises(CorpusError, match=r"a\.xlf:1: malformed XLIFF \(xmlns: .* is not a valid URI\); export"):
        list(read_corpus(write(tmp_path / "a.xlf", text), languages=EN_DE))
