import pytest

from lacuna.errors import IndexingError
from lacuna.index.kinds import IndexKind, choose_kind, search_settings

GIB = 1 << 30


@pytest.mark.parametrize(
    ("rows", "dimension", "memory", "kind"),
    [
        (0, 512, 16 * GIB, "exact"),
        (3_999, 512, 16 * GIB, "exact"),
        (4_000, 512, 16 * GIB, "PCAR320,IVF63,PQ160x4fs,Refine(SQfp16)"),
        (7_999, 256, 16 * GIB, "exact"),
        (8_000, 256, 16 * GIB, "PCAR160,IVF89,PQ80x4fs,Refine(SQfp16)"),
        (1_999_999, 512, 12 * GIB, "PCAR320,IVF1414,PQ160x4fs,Refine(SQfp16)"),
        (2_000_000, 512, 12 * GIB, "PCAR320,IVF5657_HNSW32,PQ160x4fs,Refine(SQfp16)"),
        (5_000_000, 512, 12 * GIB, "PCAR320,IVF8944_HNSW32,PQ160x4fs,Refine(SQfp16)"),
        (5_000_000, 512, 8 * GIB, "PCAR384,IVF4472,PQ192x4fs"),
        (9_000_000, 511, 8 * GIB, "PCAR382,IVF6000,PQ191x4fs"),
    ],
)
def test_auto_goes_by_size_and_memory(rows: int, dimension: int, memory: int, kind: str) -> None:
    choice = choose_kind("auto", rows, dimension, memory)
    assert choice.kind.name == kind
    assert f"{rows:,} entries" in choice.why
    # What auto makes must read back as the same kind.
    assert choose_kind(kind, rows, dimension).kind == choice.kind


@pytest.mark.parametrize(
    ("name", "lists", "graph", "rerank", "nprobe", "ef_search"),
    [
        ("exact", 0, False, 0, None, None),
        ("Flat", 0, False, 0, None, None),
        ("IVF4096,PQ64", 4096, False, 0, 32, None),
        ("IVF16,PQ8", 16, False, 0, 16, None),
        ("IVF1k,Flat", 1024, False, 0, 32, None),
        ("HNSW32", 0, True, 0, None, 48),
        ("HNSW32_SQfp16", 0, True, 0, None, 48),
        ("HNSW32_SQ8", 0, True, 2, None, 48),
        ("IVF1024,PQ64x4fs", 1024, False, 8, 32, None),
        ("OPQ64,IVF4096,PQ64", 4096, False, 8, 32, None),
        ("IVF4096_HNSW32,PQ64", 4096, False, 8, 32, None),
        ("IVF64,PQ16x4fs,RFlat", 64, False, 8, 12, None),
        ("IVF64,PQ16x4fs,Refine(SQfp16)", 64, False, 8, 12, None),
        ("IVF64_HNSW32,PQ16x4fs,Refine(SQfp16)", 64, False, 12, 16, None),
    ],
)
def test_how_a_kind_is_searched(
    name: str, lists: int, graph: bool, rerank: int, nprobe: int | None, ef_search: int | None
) -> None:
    kind = choose_kind(name, 10, 8).kind
    assert (kind.lists, kind.graph) == (lists, graph)
    settings = search_settings(kind)
    assert (settings.rerank, settings.nprobe, settings.ef_search) == (rerank, nprobe, ef_search)


def test_the_paper_s_kind_is_trained_on_a_million() -> None:
    assert IndexKind("IVF4096,PQ64", lists=4096).training_rows == 1_048_576


@pytest.mark.parametrize("asked", ["IDMap,Flat", "L2norm,Flat", "NSG32", "HNSW1", "HNSW999999", "IVF0,Flat", "PQ8x20"])
def test_kinds_that_would_do_harm_are_refused(asked: str) -> None:
    with pytest.raises(IndexingError, match="allowed: auto, exact"):
        choose_kind(asked, 1000, 32)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("exact", {"nprobe": 4}, "exact has no lists"),
        ("IVF16,Flat", {"ef_search": 4}, "has no graph"),
        ("IVF16,Flat", {"nprobe": 17}, "allowed: 1 to 16"),
        ("IVF16,Flat", {"nprobe": 0}, "allowed: 1 to 16"),
        ("HNSW32", {"ef_search": 0}, "1 or more"),
        ("HNSW32", {"rerank": -1}, "0 or more"),
        ("exact", {"rerank": 2}, "0 for exact"),
        ("IVF16,PQ4x4fs,RFlat", {"rerank": 0}, "always re-ranks"),
    ],
)
def test_settings_without_a_meaning_are_refused(name: str, given: dict[str, int], message: str) -> None:
    with pytest.raises(IndexingError, match=message):
        search_settings(choose_kind(name, 10, 8).kind, **given)
