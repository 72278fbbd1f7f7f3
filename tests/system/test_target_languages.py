"""Every verb that scores does so for a Chinese target: by characters, without an option to ask for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from commands import Run
from lacuna.corpora import read_corpus
from lacuna.domain import Domain, adapt, work_plan
from lacuna.errors import MissingExtra
from lacuna.evaluation import evaluate_systems
from lacuna.fitting import FitVanilla, add_gate, choose_pruning, fit_combiner
from lacuna.records import SentencePair
from lacuna.translator import System
from made_up import make_pairs, write_pairs
from unit.models.tiny_models import Zoo

CHINESE = str.maketrans(dict(zip("abcdefghiknoprstvwyz", "的一是不了人我在有他这中大来上国个到说们", strict=True)))


def translated(pairs: list[SentencePair]) -> list[SentencePair]:
    """Return pairs whose targets are strings of Chinese characters."""
    return [
        SentencePair(one.source, one.target.lower().replace(" ", "").translate(CHINESE), one.origin) for one in pairs
    ]


def model_into(language: str, folder: Path) -> Path:
    """Make a tiny model whose target language is this."""
    made = Zoo(folder).folder("marian")
    config = json.loads((made / "tokenizer_config.json").read_text())
    (made / "tokenizer_config.json").write_text(json.dumps(config | {"target_lang": language}))
    return made


@pytest.fixture(scope="module")
def chinese(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return model_into("zh", tmp_path_factory.mktemp("zoo"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("corpus") / "train.tsv", translated(make_pairs(760)))


@pytest.fixture(scope="module")
def domain(chinese: Path, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Domain:
    """A domain whose adaptation has chosen a ratio, a combiner and a gate by BLEU or chrF."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work_plan, "_MIN_PRUNED", 0)
        patch.setattr(work_plan, "_MIN_GATED", 0)
        into = tmp_path_factory.mktemp("domain") / "zh"
        return adapt(corpus, into, model=chinese, device="cpu")


def test_adapt_scores_by_characters(domain: Domain) -> None:
    assert all("tok:zh" in score.signature for score in domain.manifest.scores)
    assert {"safe", "fit", "gate", "score"} <= set(domain.manifest.seconds)


def test_the_score_of_adapt_is_that_of_evaluate_to_the_last_digit(domain: Domain, run: Run) -> None:
    test = str(domain.path / "test.tsv")
    printed = run(["evaluate", test, "--domain", str(domain.path), "--json"])
    evaluated = json.loads(printed)["systems"]
    for ours, theirs in zip(domain.manifest.scores, evaluated, strict=True):
        for name in ("bleu", "chrf", "p_value", "p_decline", "signature"):
            assert getattr(ours, name) == theirs[name]


def test_prune_and_fit_choose_by_characters(domain: Domain, tmp_path: Path) -> None:
    model, [memory] = domain.model, domain.system.memories
    dev = list(read_corpus(domain.path / "dev.tsv"))
    limits = {"max_loss": 0.9, "max_drop": 100.0}
    choice = choose_pruning(model, memory, dev, translated=len(dev), ratios=[0.0], min_margins=[0], **limits)
    translator = System(model, [memory], choice.combiner).open()
    whole = bleu(dev, [one.text for one in translator.translate([pair.source for pair in dev])])
    assert choice.bleu == pytest.approx(whole, rel=1e-6)
    fitted = fit_combiner(FitVanilla(), model, [memory], dev, tmp_path / "fit").combiner
    gate = add_gate(model, [memory], fitted, dev)
    translator = System(model, [memory], fitted).open()
    assert gate.bleu[0] == bleu(dev, [one.text for one in translator.translate([pair.source for pair in dev])])


def bleu(pairs: list[SentencePair], texts: list[str]) -> float:
    [score] = evaluate_systems([pair.target for pair in pairs], {"one": texts}, target_language="zh")
    return score.bleu.value


def test_evaluate_takes_the_target_of_the_model(chinese: Path, domain: Domain, run: Run) -> None:
    test = str(domain.path / "test.tsv")
    printed = run(["evaluate", test, "--model", str(chinese), "--json"])
    assert json.loads(printed)["systems"][0]["bleu"] == domain.manifest.scores[0].bleu


@pytest.mark.parametrize("language", ["ja", "ko"])
def test_a_missing_tokenizer_is_said_before_any_work(
    language: str, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(**_: object) -> None:
        raise RuntimeError("no MeCab")

    monkeypatch.setattr("sacrebleu.metrics.bleu.BLEU", missing)
    with pytest.raises(MissingExtra, match=rf"sacrebleu\[{language}\]"):
        adapt(corpus, tmp_path / "domain", model=model_into(language, tmp_path), device="cpu")
    assert not (tmp_path / "domain").exists()
