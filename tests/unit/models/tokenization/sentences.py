"""Sentences made up for the tests of words, and texts that are hard to put together again."""

from __future__ import annotations

from hypothesis import strategies as st

from lacuna.records import Origin, SentencePair
from made_up import make_pairs

_TO_CHINESE = {
    "Wir": "我们", "sehen": "看到", "und": "和", "null": "零个", "eins": "一个", "zwei": "两个", "drei": "三个",
    "vier": "四个", "fünf": "五个", "sechs": "六个", "sieben": "七个", "acht": "八个", "neun": "九个", "Äpfel": "苹果",
    "Bücher": "书", "Hunde": "狗", "Fenster": "窗户", "Schlüssel": "钥匙",
}  # fmt: skip

SMALL_DICTIONARY = "".join(f"{word} 100\n" for word in _TO_CHINESE.values()).encode()

_HARD = [
    "%s", "%1$d", "%(count)d", "{0}", "{name}", "<b>", "</b>", "&amp;", "&lt;", "$var", "${HOME}", "http://a.b/c?d=e#f",
    "www.example.org,", "me@example.org", "...", "…", "'s", "’", "n't", '"', "„", "“", "”", "«", "»", "-", "--", "–",
    "@-@", "@@", "@", "￭", "␣", "￭￭", "DOTMULTI", "THISISPROTECTED000", "</s>", "<unk>", "</w>", "5,300", "3.14",
    "12:30", "z.B.", "Mr.", "No.", "100%", "(s)", "$5", "5€", "a/b", "foo_bar", "C:\\x", "\x01", "ü", "中文", "。",
    "，", "Ω", "한국", "\u200b", "🙂", "l'eau",
]  # fmt: skip

_part = st.one_of(st.sampled_from(_HARD), st.text(max_size=4), st.sampled_from("aAzZ19 .,'-"))
texts = st.lists(_part, max_size=12).map("".join).map(lambda text: " ".join(text.split()))


def chinese_pairs(count: int) -> list[SentencePair]:
    """Return sentences such as '我们看到三个苹果和四个狗。' with their English translations."""
    pairs = []
    for pair in make_pairs(count):
        words = pair.source.removesuffix(".").split()
        source = "".join(_TO_CHINESE[word] for word in words) + "。"
        pairs.append(SentencePair(source, pair.target, Origin("made-up", pair.origin.place)))
    return pairs
