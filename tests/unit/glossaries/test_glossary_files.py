"""Reading and writing glossaries: formats, columns, bounds, and one line for whatever is wrong."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.errors import GlossaryError, LacunaWarning
from lacuna.glossaries import Glossary, Term
from lacuna.glossaries.glossary_files import MAX_BYTES, load_glossary, read_glossary, write_glossary
from lacuna.records import Languages

MENU = (Term("Datei", ("file",)), Term("Ordner", ("folder", "directory")))


def made(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    folder.mkdir(exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# --- what is read ----------------------------------------------------------------------------------------------------

TABLE = "source{0}target\nDatei{0}file\nOrdner{0}folder\nOrdner{0}directory\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", TABLE.format("\t")),
        ("a.TSV", TABLE.format("\t").replace("\n", "\r\n")),
        ("a.tsv", TABLE.format("\t").partition("\n")[2]),
        ("a.tsv", TABLE.format("\t").replace("source\ttarget", "\n SOURCE \tTarget\t\t").replace("Ordner", " Ordner ")),
        ("a.csv", TABLE.format(",")),
        ("a.csv", TABLE.format(";")),
        ("a.csv", TABLE.format(";").partition("\n")[2]),
        ("a.csv", TABLE.format('","').replace("\n", '"\n"')[:-1].join(['"', ""])),
        ("a.csv", "target,source\nfile,Datei\nfolder,Ordner\n\ndirectory,Ordner"),
        ("a.csv", codecs.BOM_UTF8 + TABLE.format(",").encode()),
        ("a.csv", TABLE.format(";").encode("utf-16")),
        ("a.tsv", codecs.BOM_UTF16_BE + TABLE.format("\t").encode("utf-16-be")),
    ],
)
def test_every_spelling_of_a_table_gives_the_same_terms(name: str, content: bytes | str, tmp_path: Path) -> None:
    read = read_glossary(made(tmp_path, name, content))
    assert (tuple(read.glossary), read.problems, read.rows) == (MENU, (), 3)


def test_a_separator_inside_cells_does_not_hide_the_other(tmp_path: Path) -> None:
    path = made(tmp_path, "a.csv", "Datei, neu;new file\nOrdner;folder\nTaste;key\n")
    assert [term.source for term in load_glossary(path)] == ["Datei, neu", "Ordner", "Taste"]


def test_all_columns(tmp_path: Path) -> None:
    rows = [
        "note\tsource\ttarget\tforbidden\tcase\tmatch\ttranslate\ttag",
        "of a disk\tPlatte\tdisk\tplate\tSensitive\tEXACT\tyes\tacme",
        "not of stone\tPlatte\tdrive\t\tsensitive\texact\t\t",
        "\tLacuna\t\t\t\t\tNo\t",
        "\tChef\t\tchef",
    ]
    assert tuple(load_glossary(made(tmp_path, "a.tsv", "\n".join(rows)))) == (
        Term("Platte", ("disk", "drive"), ("plate",), True, False, True, "of a disk; not of stone", "acme"),
        Term("Lacuna", translate=False),
        Term("Chef", forbidden=("chef",)),
    )


def test_capitals_and_spaces_make_no_new_term_unless_they_matter(tmp_path: Path) -> None:
    path = made(
        tmp_path, "a.tsv", "neue  Datei\tnew file\nNeue Datei\tfresh file\nU\u0308bung\texercise\nÜbung\tdrill\n"
    )
    assert tuple(load_glossary(path)) == (
        Term("neue Datei", ("new file", "fresh file")),
        Term("Übung", ("exercise", "drill")),
    )
    rows = "source\ttarget\tcase\nWHO\tWHO\tsensitive\nwho\twer\tsensitive\n"
    read = read_glossary(made(tmp_path, "b.tsv", rows))
    assert [term.source for term in read.glossary] == ["WHO", "who"]
    assert read.errors == []


def test_an_unknown_column_is_reported(tmp_path: Path) -> None:
    path = made(tmp_path, "a.tsv", "source\ttarget\tdomain\t\tpos\nDatei\tfile\tit\tx\tnoun\n")
    says = r"a.tsv:1: unknown columns domain, number 4, pos, of which .* \(1 warning: lacuna glossary check .*a.tsv\)"
    with pytest.warns(LacunaWarning, match=says):
        assert tuple(load_glossary(path)) == (Term("Datei", ("file",)),)
    assert read_glossary(path).unknown_columns == ("domain", "number 4", "pos")


def test_cells_of_csv_may_have_lines_and_errors_have_the_first(tmp_path: Path) -> None:
    path = made(tmp_path, "a.csv", 'source,target,note\nDatei,file,"one\ntwo"\n"Ordner\n",,\n')
    read = read_glossary(path)
    assert tuple(read.glossary) == (Term("Datei", ("file",), note="one two"),)
    assert [(problem.line, problem.source) for problem in read.errors] == [(4, "Ordner")]


# --- what is refused -------------------------------------------------------------------------------------------------

LONG = "Bitte schließen Sie das Fenster, bevor Sie den Rechner ausschalten, " * 4
BOMB = '<?xml version="1.0"?><!DOCTYPE tbx [<!ENTITY a "aaaaaaaaaa">]><tbx><text>&a;</text></tbx>'
Bad = tuple[str, bytes | str, str]
BAD: dict[str, Bad] = {
    "conflict of capitals": (
        "a.tsv",
        "source\ttarget\tcase\nOrt\tplace\t\nort\tspot\tsensitive\n",
        ":3: case: differs from line 2, which has the same source; write the same in both",
    ),
    "conflict of forms": (
        "a.tsv",
        "source\ttarget\tmatch\nOrt\tplace\t\nOrt\tspot\texact\n",
        ":3: match: differs from line 2",
    ),
    "conflict of translate": (
        "a.tsv",
        "source\ttarget\ttranslate\nOrt\tplace\t\nOrt\t\tno\n",
        ":3: translate: differs from line 2",
    ),
    "conflict of tags": (
        "a.tsv",
        "source\ttarget\ttag\nOrt\tplace\tacme\nOrt\tspot\tother\n",
        ":3: tag: got 'other', but line 2 has the same source with 'acme'",
    ),
    "target of what stays": (
        "a.tsv",
        "source\ttarget\ttranslate\nLacuna\tgap\tno\n",
        """:2: target: got 'gap' for a term with translate "no"; leave one of them out""",
    ),
    "target also forbidden": (
        "a.tsv",
        "source\ttarget\tforbidden\nOrt\tplace\t\nOrt\tspot\tPlace\n",
        ":3: forbidden: got 'Place', which line 2 allows for the same source",
    ),
    "forbidden part of a target": (
        "a.tsv",
        "source\ttarget\tforbidden\nDatei\tdata file\tfile\n",
        ":2: forbidden: got 'file', a part of 'data file', which line 2 allows",
    ),
    "forbidden source of what stays": (
        "a.tsv",
        "source\tforbidden\ttranslate\nLacuna\tlacuna\tno\n",
        ":2: forbidden: got 'lacuna', which line 2 allows",
    ),
    "empty source": ("a.tsv", "Datei\tfile\n\tfolder\n", ":2: source: got an empty cell; write the term"),
    "empty target": (
        "a.tsv",
        "Datei\tfile\nOrdner\t\n",
        """:2: target: got an empty cell; write a translation, a forbidden one, or translate "no\"""",
    ),
    "sentence": (
        "a.tsv",
        f"Datei\tfile\n{LONG}\tx\n",
        f":2: source: got {len(LONG.strip())} characters, the longest allowed are 200; a glossary has terms",
    ),
    "sentence as translation": ("a.tsv", f"Datei\t{LONG}\n", ":1: target: got "),
    "one million terms": (
        "a.tsv",
        "".join(f"Wort{n}\tword{n}\n" for n in range(1_000_000)),
        ":100001: more than 100,000 terms, the most allowed",
    ),
    "one million rows": (
        "a.tsv",
        "".join(f"Wort{n % 90_000}\tword\n" for n in range(1_000_000)),
        ":200001: more than 200,000 rows, the most allowed",
    ),
    "many rows of one term": (
        "a.tsv",
        "".join(f"Wort\tword{n}\n" for n in range(101)),
        ":101: source: got more than 100 rows with the same one",
    ),
    "rows that are no rows": (
        "a.tsv",
        "Datei\tfile\n" + "x\ty\tz\n" * 3_000_000,
        ":2: got 3 columns, but a glossary without header has 2; name all columns in the first line "
        "(1,001 errors, lines 2, 3, 4, ...: ",
    ),
    "a gigabyte": (
        "a.tsv",
        b"x" * (MAX_BYTES + 1),
        f": larger than {MAX_BYTES:,} bytes, the largest glossary allowed; split it",
    ),
    "Latin-1": (
        "a.tsv",
        "Datei\tfile\nÖffnen\topen\n".encode("latin-1"),
        ":2: not UTF-8 (byte 0xd6); save it as UTF-8",
    ),
    "Latin-1 after a byte order mark": ("a.tsv", codecs.BOM_UTF8 + b"a\xe4\tfile\n", ":1: not UTF-8 (byte 0xe4)"),
    "half of UTF-16": ("a.csv", "Datei;file".encode("utf-16") + b"\x00\xd8", ":1: not UTF-16"),
    "binary": ("a.csv", b"PK\x03\x04\0\0\0", ": binary, or UTF-16 without byte order mark; save it as UTF-8 text"),
    "private use": (
        "a.tsv",
        "Datei\tfile\ue001\n",
        ":1: target: got the character U+E001, which is no text; remove it",
    ),
    "byte order mark inside": ("a.tsv", "Datei\tfile\n\ufeffOrdner\tfolder\n", ":2: source: got the character U+FEFF"),
    "control character": ("a.tsv", "Datei\tfi\x08le\n", ":1: target: got the character U+0008"),
    "unknown case": (
        "a.tsv",
        "source\ttarget\tcase\nDatei\tfile\tyes\n",
        ":2: case: got 'yes'; allowed are insensitive and sensitive",
    ),
    "unknown match": (
        "a.tsv",
        "source\ttarget\tmatch\nDatei\tfile\tfuzzy\n",
        ":2: match: got 'fuzzy'; allowed are inflected and exact",
    ),
    "unknown translate": (
        "a.tsv",
        "source\ttarget\ttranslate\nDatei\tfile\tmaybe\n",
        ":2: translate: got 'maybe'; allowed are yes and no",
    ),
    "header twice": (
        "a.tsv",
        "source\ttarget\tTarget\nDatei\tfile\tfile\n",
        ":1: the header has the column target twice",
    ),
    "header without targets": (
        "a.tsv",
        "source\tnote\nDatei\tfile\n",
        ":1: the header has none of the columns target, forbidden, translate",
    ),
    "three columns without header": (
        "a.tsv",
        "Datei\tfile\tnoun\n",
        ":1: got 3 columns and no header; write two, source and target, or name",
    ),
    "one column": ("a.csv", "Datei\n", ":1: got 1 column and no header"),
    "more cells than columns": (
        "a.tsv",
        "source\ttarget\nDatei\tfile\tnoun\n",
        ":2: got 3 columns, but the header has 2",
    ),
    "broken quotes": ("a.csv", 'Datei,"' + "x" * 200_000, ":1: malformed CSV (field larger than field limit"),
    "empty": ("a.tsv", "\n\n", ": has no terms; write a term and its translation in each line"),
    "malformed TBX": (
        "a.tbx",
        "<tbx>\n<text><body><conceptEntry></body></text></tbx>",
        ":2: malformed XML (mismatched tag); check the file with: xmllint --noout",
    ),
    "entities": ("a.tbx", BOMB, ":1: the DOCTYPE declares the entity a, which is not safe"),
    "another XML": ("a.tbx", "<tmx/>", ":1: not TBX, the root element is <tmx> instead of <tbx>"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    file, content, says = BAD[name]
    path = made(tmp_path, file, content)
    with pytest.raises(GlossaryError) as refused:
        load_glossary(path)
    line = str(refused.value)
    assert line.startswith(f"{path}{says}"), line
    assert line.endswith(f"lacuna glossary check {path})")
    assert "\n" not in line
    assert len(line) < 400 + 2 * len(str(path))


NO_FILE: dict[str, tuple[Callable[[Path], Path], str]] = {
    "xlsx": (lambda f: made(f, "a.xlsx", b"PK"), "a.xlsx: spreadsheets are not read; save it as CSV (UTF-8)"),
    "unknown suffix": (lambda f: made(f, "a.txt", "a\tb"), "a.txt: unsupported suffix .txt; a glossary is .tsv, .csv"),
    "missing": (lambda f: f / "none.tsv", "none.tsv: cannot be read (No such file or directory); check the name"),
    "folder": (lambda f: made(f / "a.csv", "b", "").parent, "a.csv: cannot be read (Is a directory)"),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_FILE)
def test_what_is_no_glossary_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    make, says = NO_FILE[name]
    with pytest.raises(GlossaryError) as refused:
        read_glossary(make(tmp_path))
    assert str(refused.value).startswith(str(tmp_path / says))


def test_every_error_of_a_file_is_found_with_its_line_and_the_rest_is_read(tmp_path: Path) -> None:
    rows = "source\ttarget\tforbidden\nDatei\tfile\t\n\tx\t\nOrt\tplace\tplace\nTaste\tkey\t\nOrdner\t\t\n"
    path = made(tmp_path, "a.tsv", rows)
    read = read_glossary(path)
    assert [(each.line, each.source) for each in read.errors] == [(3, ""), (4, "Ort"), (6, "Ordner")]
    assert [term.source for term in read.glossary] == ["Datei", "Taste"]
    with pytest.raises(GlossaryError, match=r"a.tsv:3: .* \(3 errors, lines 3, 4, 6: lacuna glossary check"):
        load_glossary(path)


# --- TBX -------------------------------------------------------------------------------------------------------------

OLD = """<?xml version='1.0'?>
<!DOCTYPE martif SYSTEM "TBXBasiccoreStructV02.dtd">
<martif type="TBX-Basic" xml:lang="en"><text><body>
<termEntry id="1">
 <langSet xml:lang="de"><tig><term>Rechner</term></tig><ntig><termGrp><term>Computer</term></termGrp></ntig></langSet>
 <langSet xml:lang="en-US">
  <tig><term>calculator</term><termNote type="administrativeStatus">deprecatedTerm-admn-sts</termNote></tig>
  <tig><term>machine</term><termNote type="administrativeStatus">admittedTerm-admn-sts</termNote></tig>
  <tig><term>com<hi>put</hi>er</term><termNote type="administrativeStatus">preferredTerm-admn-sts</termNote></tig>
 </langSet>
</termEntry>
<termEntry id="2"><langSet xml:lang="de"><tig><term>Maus</term></tig></langSet></termEntry>
</body></text></martif>"""
NEW = """<tbx type="TBX-Min" style="dct" xml:lang="en" xmlns="urn:iso:std:iso:30042:ed-2"
 xmlns:min="http://www.tbxinfo.net/ns/min"><text><body>
<conceptEntry id="1">
 <langSec xml:lang="de"><termSec><term>Rechner</term></termSec><termSec><term>Computer</term></termSec></langSec>
 <langSec xml:lang="en">
  <termSec><term>calculator</term><min:administrativeStatus>superseded-admn-sts</min:administrativeStatus></termSec>
  <termSec><term>machine</term><min:administrativeStatus>admitted</min:administrativeStatus></termSec>
  <termSec><term>computer</term><min:administrativeStatus>preferred</min:administrativeStatus></termSec>
 </langSec>
</conceptEntry>
<conceptEntry id="2"><langSec xml:lang="de"><termSec><term>Maus</term></termSec></langSec></conceptEntry>
</body></text></tbx>"""


@pytest.mark.parametrize("content", [OLD, NEW, NEW.encode("utf-16")])
def test_both_generations_of_tbx(content: str | bytes, tmp_path: Path) -> None:
    read = read_glossary(made(tmp_path, "a.tbx", content))
    assert tuple(read.glossary) == (
        Term("Rechner", ("computer", "machine"), ("calculator",)),
        Term("Computer", ("computer", "machine"), ("calculator",)),
    )
    assert [(each.severity, each.message) for each in read.problems] == [
        ("warning", "1 of 2 concepts lack a term in de or en" + ("-us" if content is OLD else ""))
    ]


def test_the_direction_chooses_the_sides_of_tbx(tmp_path: Path) -> None:
    path = made(tmp_path, "a.tbx", OLD)
    terms = tuple(read_glossary(path, languages=Languages("en", "de")).glossary)
    assert terms == tuple(Term(each, ("Rechner", "Computer")) for each in ("computer", "calculator", "machine"))
    with pytest.raises(GlossaryError, match=r"a.tbx: has no terms in fr; its languages are de, en-us"):
        load_glossary(path, languages=Languages("de", "fr"))
    path.write_text(OLD.replace('<termEntry id="2">', '<termEntry><langSet xml:lang="fr"></langSet>'))
    with pytest.raises(GlossaryError, match=r"a.tbx: has 3 languages \(de, en-us, fr\), not two; give the direction"):
        load_glossary(path)


def test_an_unknown_status_is_reported(tmp_path: Path) -> None:
    path = made(tmp_path, "a.tbx", NEW.replace(">admitted<", ">doubtful<"))
    messages = [(each.line, each.message) for each in read_glossary(path).warnings]
    assert (
        7,
        "administrativeStatus: got 'doubtful', which TBX does not have; the term is taken as allowed",
    ) in messages


# --- writing ---------------------------------------------------------------------------------------------------------

words = st.text(st.sampled_from("aäÄxyz.\"-;,|éß漢'#&"), min_size=1, max_size=6)
phrases = st.lists(words, min_size=1, max_size=3).map(" ".join).map(lambda text: text.casefold())


@st.composite
def terms(draw: st.DrawFn, source: str) -> Term:
    translate = draw(st.booleans())
    used = draw(st.lists(phrases, max_size=5, unique=True))
    # Forbidden ones have a word that no other translation has.
    targets = tuple(text for text in used[:3] if text) if translate else ()
    forbidden = tuple(f"q{number}q {text}" for number, text in enumerate(used[3:]))
    if translate and not targets + forbidden:
        targets = ("wort",)
    texts = draw(st.tuples(st.just("") | phrases, st.just("") | phrases))
    return Term(source, targets, forbidden, draw(st.booleans()), draw(st.booleans()), translate, *texts)


@st.composite
def glossaries(draw: st.DrawFn) -> Glossary:
    sources = draw(st.lists(phrases, min_size=1, max_size=5, unique=True))
    return Glossary([draw(terms(source)) for source in sources])


@given(glossary=glossaries())
def test_what_is_written_is_read_again(glossary: Glossary, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("written") / "a.tsv"
    write_glossary(path, glossary)
    read = read_glossary(path)
    assert read.errors == []
    assert read.glossary == glossary
    content = path.read_bytes()
    write_glossary(path, read.glossary)
    assert path.read_bytes() == content


def test_the_file_has_the_columns_that_are_used(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.tsv"
    write_glossary(path, Glossary([Term("Datei", ("file",)), Term("Lacuna", translate=False, note="the toolkit")]))
    assert path.read_bytes() == b"source\ttarget\ttranslate\tnote\nDatei\tfile\t\t\nLacuna\t\tno\tthe toolkit\n"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ([Term("Da\ttei", ("file",))], r"'Da\ttei': got 'Da\ttei', which would be read as 'Da tei'"),
        ([Term("Datei", ("new\nfile",))], r"got 'new\nfile', which would be read as 'new file'"),
        ([Term("Datei ", ("file",))], "'Datei ': got 'Datei ', which would be read as 'Datei'"),
        ([Term("\ufeffDatei", ("file",))], "U+FEFF"),
        ([Term("Datei", ("file", "file"))], "targets: got ('file', 'file'), which would be read as ('file',)"),
        ([Term("Datei", ("file",)), Term("datei", ("data",))], "'datei': another term has the same source; join them"),
        ([Term("Lacuna", ("Lacuna",), translate=False)], "targets: got ('Lacuna',), which would be read as ()"),
        ([Term("Datei", ("file",), ("file",))], "forbidden: got 'file'"),
        ([Term("Datei", ("\ud800",))], "half a surrogate pair"),
    ],
)
def test_what_would_be_read_as_something_else_is_not_written(wrong: list[Term], says: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    with pytest.raises(GlossaryError) as refused:
        write_glossary(path, Glossary(wrong))
    assert says in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_glossary_without_terms_is_written_and_read_with_a_warning(tmp_path: Path) -> None:
    write_glossary(tmp_path / "a.tsv", Glossary([]))
    with pytest.warns(LacunaWarning, match=r"a.tsv: has no terms; write a term"):
        assert load_glossary(tmp_path / "a.tsv") == Glossary([])


def test_only_tsv_is_written(tmp_path: Path) -> None:
    with pytest.raises(GlossaryError, match=r"a.csv: a glossary is written as .tsv; change the suffix"):
        write_glossary(tmp_path / "a.csv", Glossary(MENU))
