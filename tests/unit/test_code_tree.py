"""The picture of the imports is that of the code, and the counts are those of a tree that was counted by hand."""

from __future__ import annotations

import re
from pathlib import Path

from code_tree import PICTURE, ROOT, draw, package_edges, read_layers, read_tree, with_one_importer


def test_the_picture_in_contributing_is_that_of_the_code() -> None:
    drawn = draw(read_layers(), package_edges(read_tree()))
    assert PICTURE.read_text(encoding="utf-8") == drawn, "draw it again: python tests/code_tree.py"


def test_the_readme_lists_the_packages_from_top_to_bottom() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [listed] = re.findall(r"^src/lacuna/\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    names = re.findall(r"\b(\w+)(?:/|\.py)\s", listed)
    assert sorted(names) == sorted({module.part for module in read_tree().values()} - {"lacuna", "__main__"})
    layer = {name: number for number, layer in enumerate(read_layers()) for name in layer}
    assert [layer[name] for name in names] == sorted(layer[name] for name in names)


def test_a_tree_counted_by_hand(tmp_path: Path) -> None:
    files = {
        "__init__.py": "",
        "__main__.py": "from lacuna.top.verbs import main\n",
        "top/__init__.py": "",
        "top/verbs.py": "from lacuna.base import sizes, words\n\ndef main(): ...\nasync def _hidden(): ...\n",
        "base/__init__.py": "from lacuna.base.words import Word\n",
        "base/words.py": "class Word:\n    def inner(self):\n        import lacuna.errors\n",
        "base/sizes.py": "LIMIT = 1\n",
        "errors.py": "class Error(Exception): ...\n",
    }
    for name, text in files.items():
        path = tmp_path / "src" / "lacuna" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    tree = read_tree(tmp_path)
    assert len(tree) == 8
    assert sum(module.lines for module in tree.values()) == 11
    assert {name: set(module.public) for name, module in tree.items() if module.public} == {
        "lacuna.top.verbs": {"main"},
        "lacuna.base.words": {"Word"},
        "lacuna.errors": {"Error"},
    }
    assert [module.name for module in with_one_importer(tree)] == ["lacuna.base.sizes", "lacuna.errors"]
    assert package_edges(tree) == {("top", "base"), ("base", "errors")}


def test_what_another_path_implies_is_marked() -> None:
    picture = draw([["top"], ["middle"], ["base"]], {("top", "middle"), ("middle", "base"), ("top", "base")})
    dots = re.findall(r'<circle( class="only")? cx="(\d+)" cy="(\d+)" r="4"><title>(\w+) imports (\w+)<', picture)
    assert [(source, target, bool(only)) for only, _, _, source, target in dots] == [
        ("top", "middle", True),
        ("top", "base", False),
        ("middle", "base", True),
    ]
    assert {target: x for _, x, _, _, target in dots}.keys() == {"middle", "base"}
    assert len({(x, y) for _, x, y, _, _ in dots}) == 3
