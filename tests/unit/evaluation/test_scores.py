"""Scores, signatures and p-values equal those of sacreBLEU."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from lacuna.errors import EvaluationError, MissingExtra, SettingError
from lacuna.evaluation import evaluate_systems, score_texts
from made_up import make_pairs

CHINESE = ["我们看见三个苹果。", "他在家里看书。"]


def english(count: int) -> list[str]:
    return [pair.target for pair in make_pairs(count, seed=5)]


def spoil(lines: list[str], share: float, seed: int) -> list[str]:
    """Return the lines with a share of their words left out or replaced."""
    rng = np.random.default_rng(seed)
    spoiled = []
    for line in lines:
        words = [word if rng.random() > share else str(rng.choice(["", "cats"])) for word in line.split()]
        spoiled.append(" ".join(filter(None, words)))
    return spoiled


def paired_test(references: list[str], systems: dict[str, list[str]], samples: int) -> tuple[str, list[float]]:
    test = PairedTest(list(systems.items()), {"BLEU": BLEU()}, [references], test_type="bs", n_samples=samples)
    signatures, results = test()
    return str(signatures["BLEU"]), [result.p_value for result in results["BLEU"][1:]]  # type: ignore[union-attr,misc]


@pytest.mark.parametrize(("metric", "field"), [(BLEU(), "bleu"), (CHRF(), "chrf"), (TER(), "ter")])
def test_scores_and_signatures_are_sacrebleus(metric: BLEU | CHRF | TER, field: str) -> None:
    references = english(40)
    lines = spoil(references, 0.3, seed=1)
    (found,) = evaluate_systems(references, {"one": lines})
    score = getattr(found, field)
    assert score.value == metric.corpus_score(lines, [references]).score
    assert score.signature == str(metric.get_signature())
    assert found.name == "one"
    assert (found.p_value, found.p_decline, found.better, found.declined) == (None, None, None, None)


def test_bleu_worked_by_hand() -> None:
    # 5 of 6 tokens (the period is one), 3 of 5 pairs, 1 of 4 triples, and 0 of 3 fours, smoothed to one half
    (found,) = evaluate_systems(["We see two red dogs."], {"one": ["We see two dead dogs."]})
    assert found.bleu.value == pytest.approx(100 * (5 / 6 * 3 / 5 * 1 / 4 * 1 / 6) ** 0.25)


def test_p_values_and_the_signature_are_those_of_the_paired_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    references = english(60)
    systems = {str(share): spoil(references, share, seed) for seed, share in enumerate([0.3, 0.28, 0.2, 0.35, 0.5])}
    signature, p_values = paired_test(references, systems, 1000)
    found = evaluate_systems(references, systems)
    assert [score.p_value for score in found[1:]] == p_values
    assert len(set(p_values)) > 2
    assert {score.signature for score in found} == {signature}


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 15), st.integers(1, 10_000), st.sampled_from([0.1, 0.5, 0.9]))
def test_p_values_are_sacrebleus_for_any_seed(count: int, seed: int, share: float) -> None:
    references = english(count)
    systems = {"first": spoil(references, 0.3, seed), "second": spoil(references, share, seed + 1)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SACREBLEU_SEED", str(seed))
        _, p_values = paired_test(references, systems, 50)
    first, second = evaluate_systems(references, systems, samples=50, seed=seed)
    if second.p_value == 1.0:  # the one departure: nothing differs in any sample
        assert first.bleu.value == second.bleu.value
    else:
        assert [second.p_value] == p_values


def test_better_and_worse_systems_are_told_apart() -> None:
    references = english(200)
    systems = {share: spoil(references, float(share), seed=3) for share in ("0.3", "0.1", "0.6")}
    first, good, bad = evaluate_systems(references, systems)
    assert first.better is None
    assert (good.better, good.declined) == (True, False)
    assert (bad.better, bad.declined) == (False, True)
    assert good.p_value is not None
    assert good.p_value < 0.05


def test_a_system_equals_itself() -> None:
    references = english(30)
    lines = spoil(references, 0.3, seed=1)
    _, second = evaluate_systems(references, {"one": lines, "two": list(lines)})
    assert (second.p_value, second.p_decline, second.better, second.declined) == (1.0, 1.0, False, False)


@pytest.mark.parametrize("language", ["zh", "zh_TW", "zh-Hans"])
def test_chinese_gets_its_tokenizers(language: str) -> None:
    (found,) = evaluate_systems(CHINESE, {"one": [CHINESE[0], "他在家里看电视。"]}, target_language=language)
    assert "tok:zh" in found.signature
    assert 50 < found.bleu.value < 100
    assert found.ter.value < 30  # by character; by sentence it would be 50
    assert "asian:yes" in found.ter.signature


def test_chinese_without_a_target_language_is_refused() -> None:
    with pytest.raises(EvaluationError, match="`target_language` zh"):
        evaluate_systems(CHINESE, {"one": CHINESE})


def test_a_missing_tokenizer_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    with pytest.raises(MissingExtra, match=r'pip install "sacrebleu\[ja\]"'):
        evaluate_systems(CHINESE, {"one": CHINESE}, target_language="ja")


def test_english_is_13a_with_exp_smoothing_and_case() -> None:
    (found,) = evaluate_systems(["We see."], {"one": ["We see."]}, target_language="en")
    for part in ("tok:13a", "smooth:exp", "case:mixed", "version:"):
        assert part in found.signature


def test_empty_translations_score_zero() -> None:
    references = english(5)
    first, second = evaluate_systems(references, {"one": references, "two": [""] * 5}, samples=50)
    assert first.bleu.value == pytest.approx(100)
    assert second.bleu.value == 0.0
    assert second.declined is True


def test_differing_counts_are_refused() -> None:
    with pytest.raises(EvaluationError, match="two: got 2 lines for 3 references"):
        evaluate_systems(["a", "b", "c"], {"one": ["a", "b", "c"], "two": ["a", "b"]})


def test_nothing_to_score_is_refused() -> None:
    with pytest.raises(EvaluationError, match="no system"):
        evaluate_systems(["a"], {})
    with pytest.raises(EvaluationError, match="without text"):
        evaluate_systems(["", " "], {"one": ["a", "b"]})


def test_impossible_draws_are_refused_before_the_work() -> None:
    with pytest.raises(SettingError, match="samples: got 0"):
        evaluate_systems(["a"], {"one": ["a"]}, samples=0)


@settings(max_examples=10, deadline=None)
@given(shares=st.lists(st.floats(0, 0.6), min_size=1, max_size=3), seed=st.integers(0, 1000))
def test_scores_for_decisions_are_those_of_the_full_evaluation(shares: list[float], seed: int) -> None:
    references = english(12)
    systems = {str(number): spoil(references, share, seed + number) for number, share in enumerate(shares)}
    full = evaluate_systems(references, systems)
    quick = score_texts(references, list(systems.values()))
    assert [(score.bleu, score.chrf) for score in quick] == [(score.bleu.value, score.chrf.value) for score in full]
    assert [score.p_decline for score in quick] == [1.0, *(score.p_decline for score in full[1:])]


def test_scores_for_decisions_need_a_translation_of_each_sentence() -> None:
    with pytest.raises(EvaluationError, match="system 2: got 1 lines for 2 references"):
        score_texts(["one", "two"], [["one", "two"], ["one"]])
