"""The figures of the paper: cells copied independently, and their arithmetic."""

from __future__ import annotations

import pytest

from lacuna.errors import SettingError
from lacuna.pruning import PRUNERS
from lacuna.reproduction.paper import PAPER, PaperDomain, paper_index_bytes, paper_of

OPUS = [domain for domain in PAPER.values() if domain.entries is not None]


def domain(name: str) -> PaperDomain:
    found = paper_of(name)
    assert found is not None
    return found


def test_cells_of_the_main_tables() -> None:
    medical, law, koran, thesis = (
        domain(name).scores for name in ("opus-medical", "opus-law", "opus-koran", "um-thesis")
    )
    merge = medical["merge"]
    assert (merge.ratio, merge.bleu, merge.comet) == (0.45, 54.65, 0.5523)
    assert merge.bleu_declined
    assert merge.comet_declined
    assert (medical["random"].bleu_declined, medical["random"].comet_declined) == (True, False)
    # PLAC does lose COMET on Law.
    assert (law["plac"].bleu, law["plac"].bleu_declined, law["plac"].comet_declined) == (63.22, False, True)
    assert (koran["random"].bleu, koran["random"].bleu_declined) == (20.36, False)
    assert (koran["base"].ratio, koran["base"].comet) == (None, -0.0097)
    assert (thesis["known"].bleu, thesis["known"].comet, thesis["known"].bleu_declined) == (17.25, -0.0143, False)
    assert domain("opus-it").scores["finetuned"].bleu == 49.08
    assert domain("um-law").scores["all_known"].ratio == 0.63


def test_cells_of_the_other_tables() -> None:
    law = domain("opus-law")
    assert law.reverse[0.40] == (-8.71, -0.21)
    assert law.variants["kster"] == (62.45, 62.30)
    assert law.by_k[16] == (63.56, 63.18)
    assert (law.train, law.dev, law.test) == (467_309, 2000, 2000)
    assert {name: (one.min_margin, one.ratio, one.k, one.temperature) for name, one in PAPER.items()} == {
        "opus-medical": (8, 0.45, 8, 10),
        "opus-law": (16, 0.45, 8, 10),
        "opus-it": (4, 0.40, 8, 10),
        "opus-koran": (4, 0.25, 8, 100),
        "um-law": (4, 0.30, 8, 100),
        "um-thesis": (4, 0.15, 8, 100),
    }


def test_systems_are_named_as_pruners_are() -> None:
    for one in PAPER.values():
        assert set(one.scores) == {"base", "finetuned", "whole", *PRUNERS} - {"reverse", "distill"}
        assert one.scores["plac"].ratio == one.scores["random"].ratio == one.ratio
        assert not one.scores["plac"].bleu_declined


def test_tables_agree_with_each_other() -> None:
    law = domain("opus-law")
    pair = (law.scores["whole"].bleu, law.scores["plac"].bleu)
    assert pair == law.variants["adaptive"] == law.by_k[law.k]
    assert round(pair[1] - pair[0], 2) == law.reverse[law.ratio][1]
    for one in PAPER.values():
        assert round(1 - one.index_mb[1] / one.index_mb[0], 2) == one.index_saved


def test_all_counts_add_up_and_all_known_ratios_but_that_of_law() -> None:
    right = {}
    for one in OPUS:
        entries = one.entries
        assert entries is not None
        assert entries.known + entries.unknown == entries.all
        right[one.name] = round(entries.known / entries.all, 4) == entries.known_ratio
    assert right == {"opus-medical": True, "opus-law": False, "opus-it": True, "opus-koran": True}
    law = domain("opus-law").entries
    assert law is not None
    assert round(law.known / law.all, 4) == 0.7754
    # "Averaging 66.7 %" in the text is neither the mean of the printed ratios nor that of the counts.
    printed = [one.entries.known_ratio for one in OPUS if one.entries]
    counted = [one.entries.known / one.entries.all for one in OPUS if one.entries]
    assert round(100 * sum(printed) / 4, 2) == 66.45
    assert round(100 * sum(counted) / 4, 2) == 69.15


@pytest.mark.parametrize("one", OPUS, ids=lambda one: one.name)
def test_the_assumed_index_has_the_printed_sizes(one: PaperDomain) -> None:
    assert one.entries is not None
    whole, pruned = one.entries.all, round(one.entries.all * (1 - one.ratio))
    for entries, printed in zip((whole, pruned), one.index_mb, strict=True):
        assert 0 <= printed - paper_index_bytes(entries, 1024) / 2**20 < 1.1


def test_index_bytes_by_hand() -> None:
    # 100 entries of 72 bytes; 4096 centers and 64 x 256 words of 2 numbers (128 / 64), 4 bytes each.
    assert paper_index_bytes(100, 128) == 7_200 + 4096 * 128 * 4 + 64 * 256 * 2 * 4


def test_names() -> None:
    assert paper_of(None) is None
    with pytest.raises(
        SettingError, match=r"got 'koran'; allowed: opus-medical, opus-law, .*, um-thesis, or leave it out"
    ):
        paper_of("koran")
