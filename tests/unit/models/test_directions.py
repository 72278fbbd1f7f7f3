from __future__ import annotations

import pytest
from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES as M2M100
from transformers.models.mbart50.tokenization_mbart50 import FAIRSEQ_LANGUAGE_CODES as MBART50
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES as NLLB

from lacuna.errors import ModelError
from lacuna.models.directions import _SCRIPTED, NAMES, find_code, short_code


@pytest.mark.parametrize(
    ("wanted", "known", "found"),
    [
        ("de", NLLB, "deu_Latn"),
        ("deu", NLLB, "deu_Latn"),
        ("de", MBART50, "de_DE"),
        ("de", M2M100["m2m100"], "de"),
        ("deu_Latn", M2M100["m2m100"], "de"),
        ("zh", NLLB, "zho_Hans"),
        ("zho_Hant", NLLB, "zho_Hant"),
        ("zh", ["cmn_Hans", "fra"], "cmn_Hans"),
        ("fr", ["cmn_Hans", "fra"], "fra"),
        ("pt_BR", MBART50, "pt_XX"),
        ("lv", NLLB, "lvs_Latn"),
        ("ast_Latn", NLLB, "ast_Latn"),
    ],
)
def test_a_plain_code_finds_the_code_of_the_tokenizer(wanted: str, known: list[str], found: str) -> None:
    assert find_code(wanted, known, model="m") == found


def test_every_code_with_a_script_is_one_nllb_has() -> None:
    assert {code for code in _SCRIPTED.values() if code not in NLLB} == set()


def test_every_language_of_mbart50_has_a_plain_code() -> None:
    assert [code for code in MBART50 if short_code(code) is None] == []


def test_an_unknown_language_is_refused_with_what_is_known() -> None:
    with pytest.raises(ModelError, match=r"m does not know language 'tlh'; it knows de_DE, en_XX"):
        find_code("tlh", ["en_XX", "de_DE"], model="m")
    with pytest.raises(ModelError, match=r"and \d+ more"):
        find_code("tlh", NLLB, model="m")


def test_an_ambiguous_language_is_refused() -> None:
    with pytest.raises(ModelError, match="write one of cmn_Hans, cmn_Hant"):
        find_code("zh", ["cmn_Hans", "cmn_Hant"], model="m")


def test_names_are_english() -> None:
    assert (NAMES["de"], short_code("deu_Latn"), short_code("ROMANCE"), short_code("")) == ("German", "de", None, None)
