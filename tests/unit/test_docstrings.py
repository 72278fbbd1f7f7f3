"""What a module docstring says in "Knows nothing of ..." is true of the module's imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import grimp
import pytest

import lacuna

# Patterns of what a module that knows nothing of something must not import: other packages directly, and modules of
# lacuna neither directly nor indirectly.
RULES = {
    "adaptation": r"lacuna\.(domain\.adaptation|steps)",
    "beams": r"lacuna\.decoding",
    "Dask": r"dask distributed lacuna\.workers\.dask_pool",
    "documents": r"lacuna\.documents",
    "domains": r"lacuna\.(domain|corpora\.fetching\.domain)",
    "experiments": r"lacuna\.reproduction",
    "files": r"lacuna\.artifacts gzip io os pathlib shutil tempfile",
    "HTTP": r"fastapi starlette uvicorn lacuna\.serving\.(access|api|app|connections|middleware|uploads)",
    "indexes": r"lacuna\.index faiss",
    "manifests": r"lacuna\.(artifacts\.manifests|\w+\.manifest)",
    "margins": r"lacuna\.margin",
    "memories": r"lacuna\.(memory|milvus)",
    "models": r"lacuna\.models transformers",
    "neighbors": r"lacuna\.(combiners|index) faiss",
    "networks": r"torch safetensors lacuna\.models\.(adapter|\w*decoder|linears|teacher_forcing|training\.network)",
    "particular combiners": r"lacuna\.combiners\.(?!(base|interpolation)$).*",
    "particular verbs": r"lacuna\.cli\.(?!(commands|error_text|options|render)$).*",
    "pruning": r"lacuna\.pruning",
    "queues": r"queue lacuna\.serving\.batching",
    "reports": r"lacuna\.reports",
    "routes": r"lacuna\.serving\.(api|app|libretranslate|\w+_routes)",
    "stores": r"lacuna\.datastore",
    "subwords": r"sentencepiece subword_nmt lacuna\.models\.tokenization\.bpe",
    "tables": r"lacuna\.reproduction\.\w*tables",
    "text": r"lacuna\.(corpora|documents|formats|models\.tokenization|records) re unicodedata",
    "the step cache": r"lacuna\.steps\.step_cache",
    "translators": r"lacuna\.translator",
    "workers": r"lacuna\.workers",
}
CLAIM = re.compile(r"[^.:;]*\b(?:knows nothing|does not know)\b[^.]*\.", re.IGNORECASE)
FORM = re.compile(r"Knows nothing of ([^:;]+)\.")


def false_claims(package: Path, rules: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with the claims in the module docstrings of a package that can be imported."""
    graph = grimp.build_graph(package.name, include_external_packages=True, cache_dir=None)
    for path in sorted(package.rglob("*.py")):
        module = ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        own = {name for name in graph.find_upstream_modules(module) if name.split(".")[0] == package.name}
        imports = sorted(own | graph.find_modules_directly_imported_by(module))
        for claim in CLAIM.findall(" ".join(docstring.split())):
            yield from (f"{module}: {fault}" for fault in _faults(claim.strip(), imports, rules))


def _faults(claim: str, imports: list[str], rules: Mapping[str, str]) -> Iterator[str]:
    form = FORM.fullmatch(claim)
    if form is None:
        yield f"{claim!r} is not of the form 'Knows nothing of A, B and C.': change it, or say it in other words"
        return
    for noun in re.split(r", | and ", form[1]):
        if noun not in rules:
            yield f"no rule says which imports {noun!r} stands for: use a noun of RULES, add it, or drop the claim"
        elif imported := [name for name in imports for rule in rules[noun].split() if _matches(rule, name)]:
            yield f"knows of {noun}: imports {imported[0]}, directly or not"


def _matches(rule: str, module: str) -> bool:
    return re.fullmatch(rf"({rule})(\..*)?", module) is not None


def test_modules_know_nothing_of_what_they_say() -> None:
    faults = list(false_claims(Path(lacuna.__file__).parent, RULES))
    assert not faults, "\n".join(faults)


def test_every_rule_matches_a_module() -> None:
    modules = grimp.build_graph("lacuna", include_external_packages=True, cache_dir=None).modules
    rules = [rule for line in RULES.values() for rule in line.split()]
    assert [rule for rule in rules if not any(_matches(rule, module) for module in modules)] == []


@pytest.mark.parametrize(
    ("claim", "fault"),
    [
        ("Knows nothing of indexes.", ""),
        ("Knows nothing of indexes and stores.", "knows of stores: imports invented.stores.folder, directly or not"),
        ("Knows nothing\nof files.", "knows of files: imports pathlib, directly or not"),
        ("Knows nothing of gravity.", "no rule says which imports 'gravity' stands for"),
        ("Does not know files.", "'Does not know files.' is not of the form 'Knows nothing of A, B and C.'"),
        ("It knows nothing of files: none.", "'It knows nothing of files: none.' is not of the form"),
    ],
)
def test_a_false_claim_is_noticed(claim: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {
        "__init__": "",
        "stores/__init__": "",
        "stores/folder": "import json",
        "helper": "from invented.stores import folder",
        "thing": f'"""A thing. {claim}"""\nimport pathlib\nfrom invented import helper',
    }
    for name, source in sources.items():
        path = tmp_path / "invented" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    rules = {"files": "pathlib", "indexes": r"invented\.indexes json", "stores": r"invented\.stores"}
    faults = list(false_claims(tmp_path / "invented", rules))
    assert len(faults) == bool(fault)
    assert all(found.startswith(f"invented.thing: {fault}") for found in faults)
