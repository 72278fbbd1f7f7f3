"""The figures of the PLAC paper (Zhu et al., 2023) as data, for comparison with ours.

Numbers are as printed, even where they contradict each other (docs/paper.md); shares are fractions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lacuna.errors import SettingError

# Names of systems: the pruning methods of Lacuna, and these three.
BASE, FINETUNED, WHOLE = "base", "finetuned", "whole"


@dataclass(frozen=True, slots=True)
class PaperScore:
    """A row of the main tables (5 and 6).

    :param ratio: Share of the entries dropped; ``None`` for a system without a memory.
    :param comet: COMET by wmt20-comet-da.
    :param bleu_declined: Whether BLEU is marked as significantly below that of the whole memory.
    :param comet_declined: The same for COMET.
    """

    ratio: float | None
    bleu: float
    comet: float
    bleu_declined: bool = False
    comet_declined: bool = False


@dataclass(frozen=True, slots=True)
class PaperEntries:
    """Number of entries of a datastore (table 2).

    :param known_ratio: As printed; that of Law is not the ratio of its counts.
    """

    known: int
    unknown: int
    all: int
    known_ratio: float


@dataclass(frozen=True, slots=True)
class PaperDomain:
    """The figures of one domain.

    :param name: Name in experiment files, such as ``opus-law``.
    :param title: As printed.
    :param train: Sentence pairs (tables 1 and 4).
    :param entries: Size of the datastore; ``None`` if the paper does not give it.
    :param min_margin: The paper's k_p (table 11).
    :param ratio: Share of the entries that PLAC drops.
    :param k: Number of neighbors of adaptive kNN-MT, the paper's k_a.
    :param scores: Scores by system (tables 5 and 6).
    :param index_mb: Index size of the whole and of the pruned memory (table 9), in MiB.
    :param index_saved: Saved share of the index size, as printed.
    :param reverse: Table 7: change of BLEU with reverse pruning and with PLAC, by ratio.
    :param variants: Table 10: BLEU with the whole and with the pruned memory, by combiner.
    :param by_k: Table 12: BLEU with the whole and with the pruned memory, by k_a.
    """

    name: str
    title: str
    languages: str
    train: int
    min_margin: int
    ratio: float
    temperature: float
    scores: Mapping[str, PaperScore]
    index_mb: tuple[int, int]
    index_saved: float
    entries: PaperEntries | None = None
    dev: int = 2000
    test: int = 2000
    k: int = 8
    reverse: Mapping[float, tuple[float, float]] = field(default_factory=dict)
    variants: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    by_k: Mapping[int, tuple[float, float]] = field(default_factory=dict)


_OPUS_MEDICAL = PaperDomain(
    name="opus-medical",
    title="OPUS-Medical",
    languages="de-en",
    train=248_099,
    entries=PaperEntries(5_070_607, 1_844_966, 6_915_573, 0.7332),
    min_margin=8,
    ratio=0.45,
    temperature=10,
    scores={
        BASE: PaperScore(None, 39.73, 0.4665),
        FINETUNED: PaperScore(None, 58.09, 0.5725),
        WHOLE: PaperScore(0.0, 57.98, 0.5801),
        "random": PaperScore(0.45, 54.08, 0.5677, bleu_declined=True),
        "cluster": PaperScore(0.45, 53.31, 0.5689, bleu_declined=True),
        "merge": PaperScore(0.45, 54.65, 0.5523, bleu_declined=True, comet_declined=True),
        "known": PaperScore(0.45, 56.44, 0.5691, bleu_declined=True),
        "all_known": PaperScore(0.73, 42.73, 0.4926, bleu_declined=True, comet_declined=True),
        "plac": PaperScore(0.45, 57.66, 0.5773),
    },
    index_mb=(492, 279),
    index_saved=0.43,
)

_OPUS_LAW = PaperDomain(
    name="opus-law",
    title="OPUS-Law",
    languages="de-en",
    train=467_309,
    entries=PaperEntries(14_803_149, 4_287_906, 19_091_055, 0.6674),
    min_margin=16,
    ratio=0.45,
    temperature=10,
    scores={
        BASE: PaperScore(None, 45.68, 0.5761),
        FINETUNED: PaperScore(None, 62.67, 0.6849),
        WHOLE: PaperScore(0.0, 63.53, 0.7033),
        "random": PaperScore(0.45, 58.69, 0.6690, bleu_declined=True, comet_declined=True),
        "cluster": PaperScore(0.45, 58.68, 0.6779, bleu_declined=True, comet_declined=True),
        "merge": PaperScore(0.45, 60.60, 0.6776, bleu_declined=True, comet_declined=True),
        "known": PaperScore(0.45, 61.61, 0.6885, bleu_declined=True, comet_declined=True),
        "all_known": PaperScore(0.66, 51.90, 0.6200, bleu_declined=True, comet_declined=True),
        "plac": PaperScore(0.45, 63.22, 0.6953, comet_declined=True),
    },
    index_mb=(1328, 739),
    index_saved=0.44,
    reverse={
        0.10: (-1.91, 0.00),
        0.20: (-4.00, -0.19),
        0.30: (-6.19, 0.18),
        0.40: (-8.71, -0.21),
        0.45: (-10.38, -0.31),
    },
    variants={"vanilla": (61.34, 61.24), "kster": (62.45, 62.30), "adaptive": (63.53, 63.22)},
    by_k={4: (63.31, 62.93), 8: (63.53, 63.22), 16: (63.56, 63.18), 32: (63.33, 63.22)},
)

_OPUS_IT = PaperDomain(
    name="opus-it",
    title="OPUS-IT",
    languages="de-en",
    train=222_927,
    entries=PaperEntries(2_514_757, 1_093_974, 3_608_731, 0.6969),
    min_margin=4,
    ratio=0.40,
    temperature=10,
    scores={
        BASE: PaperScore(None, 37.94, 0.3862),
        FINETUNED: PaperScore(None, 49.08, 0.6343),
        WHOLE: PaperScore(0.0, 48.39, 0.5694),
        "random": PaperScore(0.40, 45.54, 0.5314, bleu_declined=True, comet_declined=True),
        "cluster": PaperScore(0.40, 45.80, 0.5788, bleu_declined=True),
        "merge": PaperScore(0.40, 45.83, 0.5334, bleu_declined=True, comet_declined=True),
        "known": PaperScore(0.40, 45.93, 0.5563, bleu_declined=True),
        "all_known": PaperScore(0.69, 40.93, 0.4604, bleu_declined=True, comet_declined=True),
        "plac": PaperScore(0.40, 48.22, 0.5560),
    },
    index_mb=(265, 166),
    index_saved=0.37,
)

_OPUS_KORAN = PaperDomain(
    name="opus-koran",
    title="OPUS-Koran",
    languages="de-en",
    train=17_982,
    entries=PaperEntries(294_094, 230_677, 524_771, 0.5604),
    min_margin=4,
    ratio=0.25,
    temperature=100,
    scores={
        BASE: PaperScore(None, 16.37, -0.0097),
        FINETUNED: PaperScore(None, 22.40, 0.0551),
        WHOLE: PaperScore(0.0, 20.67, 0.0364),
        "random": PaperScore(0.25, 20.36, 0.0434),
        "cluster": PaperScore(0.25, 20.04, 0.0410, bleu_declined=True),
        "merge": PaperScore(0.25, 20.25, 0.0365, bleu_declined=True),
        "known": PaperScore(0.25, 20.35, 0.0338, bleu_declined=True),
        "all_known": PaperScore(0.56, 17.76, 0.0008, bleu_declined=True, comet_declined=True),
        "plac": PaperScore(0.25, 20.96, 0.0442),
    },
    index_mb=(54, 45),
    index_saved=0.17,
)

_UM_LAW = PaperDomain(
    name="um-law",
    title="UM-Law",
    languages="zh-en",
    train=216_000,
    min_margin=4,
    ratio=0.30,
    temperature=100,
    scores={
        BASE: PaperScore(None, 30.36, 0.3857),
        FINETUNED: PaperScore(None, 58.82, 0.6375),
        WHOLE: PaperScore(0.0, 58.64, 0.6017),
        "random": PaperScore(0.30, 53.78, 0.5661, bleu_declined=True, comet_declined=True),
        "cluster": PaperScore(0.30, 49.65, 0.5274, bleu_declined=True, comet_declined=True),
        "merge": PaperScore(0.30, 56.51, 0.5873, bleu_declined=True, comet_declined=True),
        "known": PaperScore(0.30, 56.92, 0.5762, bleu_declined=True, comet_declined=True),
        "all_known": PaperScore(0.63, 46.45, 0.4720, bleu_declined=True, comet_declined=True),
        "plac": PaperScore(0.30, 58.65, 0.6056),
    },
    index_mb=(680, 479),
    index_saved=0.30,
)

_UM_THESIS = PaperDomain(
    name="um-thesis",
    title="UM-Thesis",
    languages="zh-en",
    train=296_000,
    min_margin=4,
    ratio=0.15,
    temperature=100,
    scores={
        BASE: PaperScore(None, 13.13, -0.0442),
        FINETUNED: PaperScore(None, 16.86, -0.0295),
        WHOLE: PaperScore(0.0, 17.49, -0.0146),
        "random": PaperScore(0.15, 16.14, -0.0280, bleu_declined=True, comet_declined=True),
        "cluster": PaperScore(0.15, 15.73, -0.0419, bleu_declined=True, comet_declined=True),
        "merge": PaperScore(0.15, 17.00, -0.0296, bleu_declined=True, comet_declined=True),
        "known": PaperScore(0.15, 17.25, -0.0143),
        "all_known": PaperScore(0.47, 15.33, -0.0525, bleu_declined=True, comet_declined=True),
        "plac": PaperScore(0.15, 17.52, -0.0122),
    },
    index_mb=(810, 690),
    index_saved=0.15,
)

PAPER: dict[str, PaperDomain] = {
    domain.name: domain for domain in (_OPUS_MEDICAL, _OPUS_LAW, _OPUS_IT, _OPUS_KORAN, _UM_LAW, _UM_THESIS)
}


def paper_of(domain: str | None) -> PaperDomain | None:
    """Return the figures of a domain; ``None`` for no domain."""
    if domain is None:
        return None
    if domain not in PAPER:
        raise SettingError(f"paper: got {domain!r}; allowed: {', '.join(PAPER)}, or leave it out")
    return PAPER[domain]


def paper_index_bytes(entries: int, dimension: int) -> int:
    """Return the size of the paper's kind of index for a store.

    The paper does not name the kind, but IVF4096,PQ64 with 64-bit ids matches all printed sizes: codes and ids,
    centroids of the lists, and codebooks.
    """
    lists, codes, words, id_bytes, float_bytes = 4096, 64, 256, 8, 4
    return entries * (codes + id_bytes) + (lists + words) * dimension * float_bytes
