"""Count the code of ``src/lacuna``, and draw which package imports which.

``python tests/code_tree.py`` prints files, lines, public names (functions and classes of modules, without a leading
underscore) and modules that only one other imports, and draws the imports into ``docs/images/imports.svg``. Another
folder with a ``src`` can be named, as in ``python tests/code_tree.py ../older``; then nothing is drawn.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "imports.svg"


@dataclass(frozen=True)
class Module:
    """A module of the tree: its size, its public names, and all modules of the tree that it imports anywhere."""

    name: str
    path: Path
    lines: int
    public: frozenset[str]
    imports: frozenset[str]

    @property
    def part(self) -> str:
        """Return the package below ``lacuna``, or the name of a module of the root."""
        return self.name.split(".")[1] if "." in self.name else "lacuna"

    @property
    def is_package(self) -> bool:
        """Return whether this is the ``__init__.py`` of a package."""
        return self.path.name == "__init__.py"


def read_tree(root: Path = ROOT) -> dict[str, Module]:
    """Read all modules of ``root/src``."""
    paths = {_module_name(path.relative_to(root / "src")): path for path in sorted((root / "src").rglob("*.py"))}
    return {name: _read_module(name, path, paths) for name, path in paths.items()}


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _read_module(name: str, path: Path, known: dict[str, Path]) -> Module:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    defined = (
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    )
    public = frozenset(name for name in defined if not name.startswith("_"))
    imports = frozenset(target for node in ast.walk(tree) for target in _targets(node, known)) - {name}
    return Module(name, path, len(text.splitlines()), public, imports)


def _targets(node: ast.AST, known: dict[str, Path]) -> Iterator[str]:
    """Yield the modules of the tree that a node imports; all our imports are absolute."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in known)
    elif isinstance(node, ast.ImportFrom) and node.module in known:
        for alias in node.names:
            submodule = f"{node.module}.{alias.name}"
            yield submodule if submodule in known else node.module


def with_one_importer(tree: dict[str, Module]) -> list[Module]:
    """Return the modules, without packages, that exactly one other imports; ``__main__`` does not count."""
    importers = Counter(name for module in tree.values() if module.part != "__main__" for name in module.imports)
    return [module for module in tree.values() if importers[module.name] == 1 and not module.is_package]


def print_counts(tree: dict[str, Module]) -> None:
    """Print one line for each package and the total."""
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    lonely = {module.name for module in with_one_importer(tree)}
    packages = {module.part for module in tree.values() if module.is_package}
    for module in tree.values():
        numbers = (1, module.lines, len(module.public), module.name in lonely)
        for row in (module.part if module.part in packages - {"lacuna"} else "(root)", "total"):
            counts[row] = [old + new for old, new in zip(counts[row], numbers, strict=True)]
    print(f"{'package':14}{'files':>7}{'lines':>9}{'public names':>14}{'one importer':>14}")
    for name, (files, lines, public, one) in sorted(counts.items(), key=lambda item: (item[0] == "total", item[0])):
        print(f"{name:14}{files:7,}{lines:9,}{public:14,}{one:14,}")


def read_layers(root: Path = ROOT) -> list[list[str]]:
    """Return the layers of the import contract from top to bottom, without the prefix ``lacuna``."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (contract,) = (contract for contract in settings["contracts"] if contract["type"] == "layers")
    return [re.findall(r"lacuna\.(\w+)", layer) for layer in contract["layers"]]


def package_edges(tree: dict[str, Module]) -> set[tuple[str, str]]:
    """Return which package or module of the root imports which other."""
    edges = {(module.part, tree[name].part) for module in tree.values() for name in module.imports}
    return {(above, below) for above, below in edges if above != below and not {above, below} & {"lacuna", "__main__"}}


STEP, HEIGHT, WIDTH, MARGIN = 27, 20, 100, 12
# Colors for white and for black pages, since a page does not tell a picture which it is.
STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #768390 }
.name { fill: #fff; text-anchor: middle }
path { stroke: #8b949e; stroke-width: 0.7; fill: none }
.layer { stroke-dasharray: 1 4 }
circle { fill: #8b949e }
rect, .only { fill: #1f6feb }
</style>"""
NOTES = (
    "A dot: the package to its left imports the package below it.",
    "Blue: there is no other path between the two.",
    "Dotted lines separate the layers.",
)


def draw(layers: Sequence[Sequence[str]], edges: set[tuple[str, str]]) -> str:
    """Draw the packages down a diagonal, so that each has a row for its imports and a column for its importers.

    :param layers: packages from top to bottom; an edge leads down or stays in its layer.
    :param edges: pairs of the importing and the imported package.
    :return: the picture as SVG.
    """
    below = {name: _reachable(name, edges) for edge in edges for name in edge}
    rows = [sorted((name for name in layer if name in below), key=lambda name: -len(below[name])) for layer in layers]
    names = [name for row in rows for name in row]
    x = {name: MARGIN + WIDTH + STEP * number for number, name in enumerate(names)}
    y = {name: MARGIN + HEIGHT // 2 + STEP * number for number, name in enumerate(names)}
    right, bottom = max(x.values()) + 2 * MARGIN, max(y.values()) + HEIGHT // 2 + MARGIN
    shapes = [
        f'<path class="layer" d="M{x[row[-1]] - WIDTH} {y[row[-1]] + STEP / 2}H{right - MARGIN}"/>'
        for row in rows
        if row
    ]
    for name in names:
        imported = (x[target] for source, target in edges if source == name)
        importers = (y[source] for source, target in edges if target == name)
        shapes.append(
            f'<path d="M{x[name]} {min(importers, default=y[name])}V{y[name]}H{max(imported, default=x[name])}"/>'
        )
    for source, target in sorted(edges, key=lambda edge: (y[edge[0]], x[edge[1]])):
        only = not any(target in below[other] for first, other in edges if first == source)
        kind = ' class="only"' if only else ""
        title = f"<title>{source} imports {target}</title>"
        shapes.append(f'<circle{kind} cx="{x[target]}" cy="{y[source]}" r="4">{title}</circle>')
    for name in names:
        left = x[name] - WIDTH + MARGIN
        shapes.append(f'<rect x="{left}" y="{y[name] - HEIGHT // 2}" width="{WIDTH}" height="{HEIGHT}" rx="4"/>')
        shapes.append(f'<text class="name" x="{left + WIDTH // 2}" y="{y[name] + 4}">{name}</text>')
    for number, note in enumerate(reversed(NOTES)):
        shapes.append(f'<text x="{2 * MARGIN}" y="{bottom - MARGIN - 20 * number}">{note}</text>')
    frame = f'viewBox="0 0 {right} {bottom}" width="{right}" height="{bottom}"'
    return "\n".join((f'<svg xmlns="http://www.w3.org/2000/svg" {frame}>', STYLE, *shapes, "</svg>\n"))


def _reachable(name: str, edges: set[tuple[str, str]]) -> set[str]:
    """Return all packages below one, over any number of imports."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        source = waiting.pop()
        new = {target for first, target in edges if first == source} - found
        found |= new
        waiting += new
    return found


def main() -> None:
    """Print the counts of a tree, and draw the imports of this one."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    tree = read_tree(root)
    print_counts(tree)
    if root == ROOT:
        PICTURE.write_text(draw(read_layers(), package_edges(tree)), encoding="utf-8")


if __name__ == "__main__":
    main()
