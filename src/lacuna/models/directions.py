"""Directions: language codes, and how each family of models is set to translate from one language to another.

Users write plain codes (``de``); tokenizers have their own (``deu_Latn``, ``de_DE``). Knows nothing of networks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lacuna.errors import ModelError
from lacuna.models.facts import ModelFacts
from lacuna.records import Languages

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Two-letter code: English name (T5 writes it in its task prefix) and the code with script that NLLB uses. Where a
# language has several scripts, the one here is what the plain code means.
_TABLE = """
af Afrikaans afr_Latn | am Amharic amh_Ethi | ar Arabic arb_Arab | as Assamese asm_Beng | az Azerbaijani azj_Latn
be Belarusian bel_Cyrl | bg Bulgarian bul_Cyrl | bn Bengali ben_Beng | bs Bosnian bos_Latn | ca Catalan cat_Latn
cs Czech ces_Latn | cy Welsh cym_Latn | da Danish dan_Latn | de German deu_Latn | el Greek ell_Grek
en English eng_Latn | eo Esperanto epo_Latn | es Spanish spa_Latn | et Estonian est_Latn | eu Basque eus_Latn
fa Persian pes_Arab | fi Finnish fin_Latn | fo Faroese fao_Latn | fr French fra_Latn | ga Irish gle_Latn
gd Gaelic gla_Latn | gl Galician glg_Latn | gu Gujarati guj_Gujr | ha Hausa hau_Latn | he Hebrew heb_Hebr
hi Hindi hin_Deva | hr Croatian hrv_Latn | ht Haitian hat_Latn | hu Hungarian hun_Latn | hy Armenian hye_Armn
id Indonesian ind_Latn | ig Igbo ibo_Latn | is Icelandic isl_Latn | it Italian ita_Latn | ja Japanese jpn_Jpan
jv Javanese jav_Latn | ka Georgian kat_Geor | kk Kazakh kaz_Cyrl | km Khmer khm_Khmr | kn Kannada kan_Knda
ko Korean kor_Hang | ky Kyrgyz kir_Cyrl | lb Luxembourgish ltz_Latn | lo Lao lao_Laoo | lt Lithuanian lit_Latn
lv Latvian lvs_Latn | mg Malagasy plt_Latn | mi Maori mri_Latn | mk Macedonian mkd_Cyrl | ml Malayalam mal_Mlym
mn Mongolian khk_Cyrl | mr Marathi mar_Deva | ms Malay zsm_Latn | mt Maltese mlt_Latn | my Burmese mya_Mymr
ne Nepali npi_Deva | nb Norwegian nob_Latn | nl Dutch nld_Latn | nn Nynorsk nno_Latn | no Norwegian nob_Latn
oc Occitan oci_Latn | or Odia ory_Orya | pa Punjabi pan_Guru | pl Polish pol_Latn | ps Pashto pbt_Arab
pt Portuguese por_Latn | ro Romanian ron_Latn | ru Russian rus_Cyrl | sd Sindhi snd_Arab | si Sinhala sin_Sinh
sk Slovak slk_Latn | sl Slovenian slv_Latn | so Somali som_Latn | sq Albanian als_Latn | sr Serbian srp_Cyrl
su Sundanese sun_Latn | sv Swedish swe_Latn | sw Swahili swh_Latn | ta Tamil tam_Taml | te Telugu tel_Telu
th Thai tha_Thai | tl Tagalog tgl_Latn | tr Turkish tur_Latn | uk Ukrainian ukr_Cyrl | ur Urdu urd_Arab
uz Uzbek uzn_Latn | vi Vietnamese vie_Latn | xh Xhosa xho_Latn | yi Yiddish ydd_Hebr | yo Yoruba yor_Latn
zh Chinese zho_Hans | zu Zulu zul_Latn
"""
_ROWS = [cell.split() for line in _TABLE.strip().splitlines() for cell in line.split("|")]
NAMES = {short: name for short, name, _ in _ROWS}
_SCRIPTED = {short: scripted for short, _, scripted in _ROWS}
_SHORT = {scripted.partition("_")[0]: short for short, scripted in _SCRIPTED.items()}
# OPUS-MT's tags say Mandarin where others say Chinese, and use the macro code for Arabic and Persian.
_SHORT.update({"cmn": "zh", "ara": "ar", "fas": "fa", "msa": "ms", "nor": "no", "lav": "lv", "sqi": "sq"})


def short_code(code: str) -> str | None:
    """Return the two-letter code of ``deu_Latn``, ``de_DE``, ``deu`` or ``de``; ``None`` if it is not in the table."""
    base = code.partition("_")[0].lower()
    return base if base in NAMES else _SHORT.get(base)


def same_language(first: str, second: str) -> bool:
    """Tell whether two codes mean the same language and script: ``de``, ``deu`` and ``deu_Latn`` do."""
    return _with_script(first) == _with_script(second)


def _with_script(code: str) -> str:
    return code if "_" in code else _SCRIPTED.get(short_code(code) or "", code)


def find_code(wanted: str, known: Collection[str], *, model: str) -> str:
    """Return the code in ``known`` for the language that the user wrote.

    :param wanted: As the user wrote it: ``de``, or the tokenizer's own spelling (``deu_Latn``, ``de_DE``).
    :param known: Every code the tokenizer has.
    :param model: Name of the model, for the error.
    """
    if wanted in known:
        return wanted
    short = short_code(wanted)
    candidates = sorted(code for code in known if short is not None and short_code(code) == short)
    if _SCRIPTED.get(short or "") in candidates and "_" not in wanted:
        return _SCRIPTED[short or ""]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise ModelError(f"{model}: language {wanted!r} has several codes here; write one of {', '.join(candidates)}")
    raise ModelError(f"{model} does not know language {wanted!r}; it knows {_listed(known)}")


def _listed(known: Collection[str], at_most: int = 40) -> str:
    """List codes in one line; the two hundred codes of NLLB are shortened."""
    codes = sorted(known)
    more = f" and {len(codes) - at_most} more" if len(codes) > at_most else ""
    return ", ".join(codes[:at_most]) + more


Asked = Languages | None


@dataclass(frozen=True, slots=True)
class Direction:
    """Settings of a model for one direction.

    :param languages: The direction, if the model or the user names it.
    :param start_ids: Tokens that every translation starts with; they are forced, never predicted.
    :param source_prefix: Text before every source sentence.
    """

    languages: Languages | None
    start_ids: tuple[int, ...]
    source_prefix: str = ""


def _start_id(facts: ModelFacts, otherwise: int | None = None) -> int:
    start = otherwise if facts.start_id is None else facts.start_id
    if start is None:
        raise ModelError("config.json has no decoder_start_token_id; add the one that the model was trained with")
    return start


def _needed(asked: Asked, name: str) -> Languages:
    if asked is None:
        raise ModelError(f"{name} translates between many languages; say which, as in languages de-en")
    return asked


def _agreed(asked: Asked, source: str | None, target: str | None, name: str) -> Asked:
    """Check the direction that the user wrote against that of a bilingual model."""
    if asked is not None:
        for role, mine, said in (("from", source, asked.source), ("to", target, asked.target)):
            known = short_code(mine or "")
            if known is not None and short_code(said) not in (None, known):
                raise ModelError(f"{name} translates {role} {mine}, not {said}; its direction is {source}-{target}")
        return asked
    # A group of languages (ROMANCE, mul) is not a direction.
    return Languages(source, target) if source and target and short_code(source) and short_code(target) else None


class MarianTokenizer(Protocol):
    """What the tokenizer of a Marian model says about languages."""

    source_lang: str | None
    target_lang: str | None
    supported_language_codes: Sequence[str]


def direct_marian(facts: ModelFacts, tokenizer: MarianTokenizer, asked: Asked, name: str) -> Direction:
    """Marian: one direction; models with several target languages need ``>>fr<<`` before the source text."""
    languages = _agreed(asked, tokenizer.source_lang, tokenizer.target_lang, name)
    start = (_start_id(facts, facts.pad_id),)
    codes = [code[2:-2] for code in tokenizer.supported_language_codes]
    if not codes:
        return Direction(languages, start)
    code = find_code(_needed(languages, name).target, codes, model=name)
    return Direction(languages, start, source_prefix=f">>{code}<< ")


def direct_fsmt(facts: ModelFacts, tokenizer: PreTrainedTokenizerBase, asked: Asked, name: str) -> Direction:
    """FSMT: one direction, named in the tokenizer's settings."""
    return Direction(_agreed(asked, tokenizer.src_lang, tokenizer.tgt_lang, name), (_start_id(facts),))


def direct_m2m100(facts: ModelFacts, tokenizer: PreTrainedTokenizerBase, asked: Asked, name: str) -> Direction:
    """M2M100 and NLLB: the source has a language tag, the translation starts with ``</s> tag``."""
    languages, tag = _tagged(tokenizer, asked, name)
    return Direction(languages, (_start_id(facts), tag))


def direct_mbart(facts: ModelFacts, tokenizer: PreTrainedTokenizerBase, asked: Asked, name: str) -> Direction:
    """MBART starts with the tag alone; mBART-50, recognized by its tokenizer, with ``</s> tag``."""
    languages, tag = _tagged(tokenizer, asked, name)
    many_to_many = type(tokenizer).__name__.startswith("MBart50")
    return Direction(languages, (_start_id(facts, facts.eos_id), tag) if many_to_many else (tag,))


def _tagged(tokenizer: PreTrainedTokenizerBase, asked: Asked, name: str) -> tuple[Languages, int]:
    languages = _needed(asked, name)
    tags = language_tags(tokenizer)
    source, target = (find_code(code, tags, model=name) for code in (languages.source, languages.target))
    tokenizer.src_lang = source
    return languages, tags[target]


def language_tags(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """Return the language codes of a multilingual tokenizer and their token ids."""
    if hasattr(tokenizer, "lang_token_to_id"):  # M2M100, whose tokens are written __de__
        return {token.strip("_"): number for token, number in tokenizer.lang_token_to_id.items()}
    tag = re.compile(r"[a-z]{2,3}_(?:[A-Z]{2}|[A-Z][a-z]{3})")
    special = {*tokenizer.get_added_vocab(), *tokenizer.all_special_tokens}
    vocabulary = tokenizer.get_vocab()
    return {token: vocabulary[token] for token in special if tag.fullmatch(token)}


def direct_bart(facts: ModelFacts, tokenizer: PreTrainedTokenizerBase, asked: Asked, name: str) -> Direction:
    """BART has no languages; its targets are ``<s> text </s>`` after ``</s>``, so ``<s>`` is forced."""
    return Direction(asked, (_start_id(facts, facts.eos_id), tokenizer.get_vocab()[tokenizer.bos_token]))


def direct_t5(facts: ModelFacts, tokenizer: PreTrainedTokenizerBase, asked: Asked, name: str) -> Direction:
    """T5 needs ``translate German to English:`` if its config lists such tasks, otherwise nothing."""
    start = (_start_id(facts, facts.pad_id),)
    if not facts.task_prefixes:
        return Direction(asked, start)
    languages = _needed(asked, name)
    prefix = facts.task_prefixes.get(f"translation_{languages.source}_to_{languages.target}")
    return Direction(languages, start, prefix or _t5_prefix(languages, name))


def _t5_prefix(languages: Languages, name: str) -> str:
    """Return the prefix for a direction that the config does not list: a fine-tuned T5 often keeps the old list."""
    source, target = (NAMES.get(short_code(code) or "") for code in (languages.source, languages.target))
    if source is None or target is None:
        raise ModelError(f"{name} names languages in English, and no English name is known for a code of {languages}")
    return f"translate {source} to {target}: "
