"""Language codes: from the plain code a user writes (``de``) to the one a tokenizer knows (``deu_Latn``).

Knows names and codes only: nothing of models, tokens or text.
"""

from __future__ import annotations

from collections.abc import Collection

from lacuna.errors import ModelError

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
    """Give the two-letter code of ``deu_Latn``, ``de_DE``, ``deu`` or ``de``; ``None`` for what is no language here."""
    base = code.partition("_")[0].lower()
    return base if base in NAMES else _SHORT.get(base)


def find_code(wanted: str, known: Collection[str], *, model: str) -> str:
    """Find the code in ``known`` that means the language the user wrote.

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
    """Write codes in one line; the two hundred of NLLB are cut, since nobody reads them in an error."""
    codes = sorted(known)
    more = f" and {len(codes) - at_most} more" if len(codes) > at_most else ""
    return ", ".join(codes[:at_most]) + more
