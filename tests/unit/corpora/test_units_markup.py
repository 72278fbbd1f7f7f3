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
        with pytest.raises(CorpusError, match=r"a\.tmx:2: the DOCTYPE declares the entity e, which is not safe"):
            list(read_corpus(path))


def test_an_entity_of_a_dtd_is_not_lost(tmp_path: Path) -> None:
    text = tmx(("u", [("en", "a &nbsp; b"), ("de", "c")]), doctype='<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n')
    with pytest.raises(CorpusError, match="uses the entity &nbsp;, and entities are not expanded"):
        list(read_corpus(write(tmp_path / "a.tmx", text)))


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
def test_namespaces_do_not_matter(tmp_path: Path, namespace: str) -> None:
    units = '<trans-unit id="1"><source>yes</source><target>ja</target></trans-unit>'
    text = xliff1(units).replace("urn:oasis:names:tc:xliff:document:1.2", namespace)
    assert found(read_corpus(write(tmp_path / "a.xlf", text), languages=EN_DE)) == [("yes", "ja", "1")]


@pytest.mark.parametrize(
    ("declared", "encoding", "text"),
    [
        ("GBK", "gbk", "你好"),
        ("Big5", "big5", "你好"),
        ("Shift_JIS", "shift_jis", "表ソ"),
        ("EUC-KR", "euc_kr", "한"),
        ("ISO-2022-JP", "iso2022_jp", "表"),
        ("windows-1251", "cp1251", "Да"),
        ("UTF-16", "utf-8-sig", "你"),  # the byte order mark is right, the declaration is not
        ("UTF-8", "utf-16", "你"),
        ("UTF-16", "utf-16-be", "你"),
    ],
)
def test_encodings(tmp_path: Path, declared: str, encoding: str, text: str) -> None:
    declaration = f'version="1.0" encoding="{declared}"?'
    content = tmx(("u", [("en", "yes"), ("zh", text)])).replace('version="1.0"?', declaration)
    (tmp_path / "a.tmx").write_bytes(content.encode(encoding))
    assert found(read_corpus(tmp_path / "a.tmx")) == [("yes", text, "u")]


def test_bytes_that_are_not_of_the_encoding_name_the_line(tmp_path: Path) -> None:
    content = tmx(("u", [("en", "yes"), ("zh", "X")])).replace('version="1.0"?', 'version="1.0" encoding="GBK"?')
    (tmp_path / "a.tmx").write_bytes(content.encode().replace(b"X", b"\xff"))
    with pytest.raises(CorpusError, match=r"a\.tmx:3: not GBK \(byte 0xff\); convert"):
        list(read_corpus(tmp_path / "a.tmx"))


# --- what corpora and documents once read differently ----------------------------------------------------------------


def test_a_variant_is_no_translation_of_itself(tmp_path: Path) -> None:
    units = [("a", [("pt-BR", "sim")]), ("b", [("pt", "autocarro"), ("pt-BR", "ônibus")])]
    path = write(tmp_path / "a.tmx", tmx(*units))
    assert found(read_corpus(path, languages=Languages("pt", "pt_BR"))) == [("autocarro", "ônibus", "b")]


def test_a_machine_translation_to_be_reviewed_is_no_pair(tmp_path: Path) -> None:
    """As a fuzzy message in PO, or a target in the state needs-review-translation in XLIFF."""
    text = tmx(("a", [("en", "yes"), ("de", "ja")]), ("b", [("en", "no"), ("de", "nein")]))
    text = text.replace("<seg>ja", '<prop type="x-lacuna-review">rare words</prop><seg>ja')
    assert found(read_corpus(write(tmp_path / "a.tmx", text))) == [("no", "nein", "b")]


def test_the_first_variant_with_a_segment_counts(tmp_path: Path) -> None:
    text = tmx(("a", [("en", "yes"), ("de", "ja")])).replace("<tuv xml:lang=", "<tuv xml:lang='de'/><tuv xml:lang=", 1)
    assert found(read_corpus(write(tmp_path / "a.tmx", text), languages=EN_DE)) == [("yes", "ja", "a")]


def test_xliff_1_is_read_segment_by_segment(tmp_path: Path) -> None:
    mark = '<mrk mtype="seg" mid="{}">{}</mrk>'
    source = f"<seg-source>{mark.format(0, 'One.')} {mark.format(1, 'Two.')}</seg-source>"
    unit = f'<trans-unit id="u"><source>One. Two.</source>{source}<target>{{}}</target></trans-unit>'
    texts = {
        mark.format(0, "Eins.") + mark.format(1, "Zwei."): [("One.", "Eins.", "u/0"), ("Two.", "Zwei.", "u/1")],
        mark.format(1, "Zwei."): [("Two.", "Zwei.", "u/1")],
        "Eins. Zwei.": [("One. Two.", "Eins. Zwei.", "u")],
    }
    for target, expected in texts.items():
        assert found(read_corpus(write(tmp_path / "a.xlf", xliff1(unit.format(target))))) == expected


def test_regions_of_xliff_need_not_agree(tmp_path: Path) -> None:
    path = write(tmp_path / "a.xlf", xliff1(UNITS1, "en", "de-DE"))
    for languages in (Languages("en_US", "de"), Languages("en", "de_AT")):
        assert found(read_corpus(path, languages=languages))[0] == ("Press OK", "Drücke OK", "a")
