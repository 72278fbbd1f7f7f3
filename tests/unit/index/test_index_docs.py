"""The tables of docs/index.md and docs/margin.md against the code."""

import re
from pathlib import Path

import pytest

from lacuna.index.kinds import EXACT_BELOW, choose_kind
from lacuna.index.recall import SAMPLE
from lacuna.margin.storage import MAX_MARGIN

DOCS = Path(__file__).parents[3] / "docs"


def kinds_in_the_docs() -> dict[str, tuple[int | None, ...]]:
    """Return the default nprobe, efSearch and rerank of each kind, as the docs have them."""
    lines = (DOCS / "index.md").read_text(encoding="utf-8").splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("| `--kind` |"))
    assert lines[start].split("|")[-4:-1] == [" nprobe ", " efSearch ", " rerank "]
    kinds = {}
    for line in lines[start + 3 :]:  # after the head, the rule and `auto`
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        kinds[cells[0].strip("`")] = tuple(int(cell) if cell else None for cell in cells[-3:])
    return kinds


@pytest.mark.parametrize("kind", kinds_in_the_docs())
def test_the_docs_have_the_default_settings_of_each_kind(kind: str) -> None:
    defaults = choose_kind(kind, 1_000_000, 256).kind.defaults
    assert kinds_in_the_docs()[kind] == (defaults.nprobe, defaults.ef_search, defaults.rerank)


def test_the_kinds_of_auto_are_in_the_docs() -> None:
    documented = kinds_in_the_docs()
    for rows, memory in ((100, 1 << 40), (224_984, 1 << 40), (20_000_000, 1 << 30)):
        assert choose_kind("auto", rows, 256, memory).kind.name in documented


def test_other_defaults_in_the_docs() -> None:
    index, margin = ((DOCS / name).read_text(encoding="utf-8") for name in ("index.md", "margin.md"))
    assert re.search(r"`--sample (\d+)`", index)[1] == str(SAMPLE)
    assert f"up to {EXACT_BELOW // 256:,} 256-dimensional keys" in index
    assert f"`--max-margin {MAX_MARGIN}`" in margin
