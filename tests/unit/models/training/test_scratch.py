"""Training end to end on a toy language: it learns, it can be loaded, continued, and it refuses to lose work."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from transformers import MarianMTModel, MarianTokenizer

from lacuna.errors import SettingError, TrainingError
from lacuna.models.loading import load_model
from lacuna.models.training import Shape, TrainingReport, TrainSettings, WeightedCorpus, train_model
from lacuna.models.training.loop import TrainingLoop
from lacuna.progress import Silent
from lacuna.records import Languages, Origin, SentencePair
from made_up import make_pairs
from unit.models.tokenization.sentences import chinese_pairs

DE_EN = Languages("de", "en")
TINY = TrainSettings(
    steps=6,
    shape=Shape(1, 1, 32, 64, 2, vocabulary=370, max_positions=64),
    batch_tokens=256,
    warmup_steps=2,
    evaluate_every=2,
    save_every=2,
    average=2,
    dev_pairs=20,
)


def reader(count: int = 300, seed: int = 0) -> Callable[[], Iterable[SentencePair]]:
    return lambda: make_pairs(count, seed)


def run(into: Path, settings: TrainSettings = TINY, **more: object) -> TrainingReport:
    return train_model([WeightedCorpus("toy", reader())], DE_EN, settings, into, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("trained") / "model"
    settings = replace(TINY, steps=700, learning_rate=5e-3, warmup_steps=50, evaluate_every=140, save_every=350)
    report = run(into, settings, dev=reader(60, seed=9))
    assert report.dev_perplexity < 2  # a fresh model starts near 400
    return into


def test_result_loads_in_plain_transformers_and_translates(trained: Path) -> None:
    model, tokenizer = (
        MarianMTModel.from_pretrained(trained, dtype=torch.float32),
        MarianTokenizer.from_pretrained(trained),
    )
    unseen = make_pairs(40, seed=77)
    ids = model.generate(**tokenizer([pair.source for pair in unseen], return_tensors="pt", padding=True))
    texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
    words = [
        (got, want)
        for text, pair in zip(texts, unseen, strict=True)
        for got, want in zip(text.split(), pair.target.split(), strict=False)
    ]
    assert sum(got == want for got, want in words) / len(words) > 0.6


def test_learning_curve_is_in_the_log_and_falls(trained: Path) -> None:
    lines = [json.loads(line) for line in (trained / "training" / "log-1.jsonl").read_text().splitlines()]
    curve = [line["dev_perplexity"] for line in lines if "dev_perplexity" in line]
    assert len(curve) == 5
    assert curve[-1] < curve[0]
    assert lines[-1]["averaged_perplexity"] > 0


def test_finished_run_leaves_no_state_behind(trained: Path) -> None:
    assert sorted(path.name for path in trained.iterdir()) == [
        "config.json", "generation_config.json", "lacuna.json", "model.safetensors",
        "source.spm", "target.spm", "tokenizer_config.json", "training", "vocab.json",
    ]  # fmt: skip
    assert [path.name for path in (trained / "training").iterdir()] == ["log-1.jsonl"]


def test_all_files_follow_the_umask(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    modes = {path.name: path.stat().st_mode for path in trained.rglob("*") if path.is_file()}
    assert modes == dict.fromkeys(modes, (tmp_path / "plain").stat().st_mode)


def test_same_seed_same_weights_and_another_seed_others(tmp_path: Path) -> None:
    for name, settings in (("a", TINY), ("b", TINY), ("c", replace(TINY, seed=2))):
        run(tmp_path / name, settings)
    first, same, other = (load_file(tmp_path / name / "model.safetensors") for name in "abc")
    assert all(torch.equal(first[key], same[key]) for key in first)
    assert not all(torch.equal(first[key], other[key]) for key in first)


def test_each_further_run_sees_the_pairs_in_another_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    batches = TrainingLoop._batches

    def recording(loop: TrainingLoop) -> Iterator[NDArray[np.int64]]:
        seen.append(loop.counters.epoch)
        return batches(loop)

    monkeypatch.setattr(TrainingLoop, "_batches", recording)
    run(tmp_path / "model", replace(TINY, steps=2))
    for _ in range(2):
        run(tmp_path / "model", replace(TINY, steps=2, learning_rate=1e-5), go_on=True)
    assert seen == [0, 1, 2]


def test_continue_keeps_the_vocabulary_and_starts_from_the_weights(tmp_path: Path) -> None:
    into = tmp_path / "model"
    first = run(into, replace(TINY, steps=80, learning_rate=3e-3))
    vocabulary = (into / "vocab.json").read_bytes()
    second = run(into, replace(TINY, steps=4, learning_rate=1e-5), go_on=True)
    assert (into / "vocab.json").read_bytes() == vocabulary
    assert second.dev_perplexity == pytest.approx(first.dev_perplexity, rel=0.05)
    assert len(json.loads((into / "lacuna.json").read_text())["runs"]) == 2


def test_start_from_another_model_keeps_what_it_knows(trained: Path, tmp_path: Path) -> None:
    settings = replace(TINY, steps=1, learning_rate=1e-6)
    report = run(tmp_path / "model", settings, start_from=trained, dev=reader(60, seed=9))
    assert report.dev_perplexity < 3.0


@pytest.mark.parametrize(("direction", "vocabularies"), [("de-en", "joint"), ("zh-en", "separate")])
def test_words_and_bpe_train_load_and_translate(tmp_path: Path, direction: str, vocabularies: str) -> None:
    made = {"de-en": make_pairs, "zh-en": chinese_pairs}[direction]
    languages, first, into = Languages.parse(direction), tmp_path / "first", tmp_path / "model"
    corpus = [WeightedCorpus("toy", lambda: made(300))]
    quick = replace(TINY, steps=150, learning_rate=5e-3, warmup_steps=10, evaluate_every=75)
    settings = replace(quick, shape=replace(TINY.shape, vocabulary=400), tokenization="bpe", vocabularies=vocabularies)
    report = train_model(corpus, languages, settings, first)
    assert report.dev_perplexity < 40  # a fresh model starts near 300
    first.rename(into)
    model = load_model(into, device="cpu")
    assert model.languages == languages
    [pair] = made(1)
    assert [model.decode(ids) for ids in model.encode_targets([pair.target])] == [pair.target]
    assert model.generate([pair.source], beam=1)[0].startswith("We see")
    again = train_model(corpus, languages, replace(settings, steps=2, learning_rate=1e-6), into, go_on=True)
    assert again.dev_perplexity == pytest.approx(report.dev_perplexity, rel=0.05)
    other = train_model(corpus, languages, replace(settings, steps=1, seed=2), tmp_path / "other", start_from=into)
    assert other.dev_perplexity < 60


def test_words_and_bpe_are_the_same_for_the_same_seed_and_after_a_kill(tmp_path: Path) -> None:
    class Interrupt(Silent):
        def advance(self, amount: float = 1.0, note: str = "") -> None:
            if "step 4 " in note:
                raise KeyboardInterrupt

    settings = replace(TINY, tokenization="bpe", vocabularies="separate")
    run(tmp_path / "whole", settings)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "killed", settings, progress=Interrupt())
    run(tmp_path / "killed", settings)
    whole, killed = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "killed"))
    assert all(torch.equal(whole[key], killed[key]) for key in whole)


def test_a_finished_model_is_continued_with_its_own_tokenization_only(trained: Path) -> None:
    before = sorted(trained.rglob("*"))
    with pytest.raises(TrainingError, match="this model has sentencepiece with joint ones; add `tokenization` sente"):
        run(trained, replace(TINY, tokenization="bpe"), go_on=True)
    assert sorted(trained.rglob("*")) == before


def test_languages_without_a_word_splitter_leave_no_trace(tmp_path: Path) -> None:
    settings = replace(TINY, tokenization="bpe")
    with pytest.raises(SettingError, match="got bpe for ja"):
        train_model([WeightedCorpus("toy", reader())], Languages("ja", "en"), settings, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_run_of_an_earlier_version_resumes(tmp_path: Path) -> None:
    class Interrupt(Silent):
        def advance(self, amount: float = 1.0, note: str = "") -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "model", progress=Interrupt())
    plan_file = tmp_path / "model" / "training" / "plan.json"
    plan = json.loads(plan_file.read_text())
    del plan["settings"]["tokenization"], plan["settings"]["vocabularies"]
    plan_file.write_text(json.dumps(plan))
    assert run(tmp_path / "model").steps == TINY.steps


def test_early_stopping_ends_before_the_budget(tmp_path: Path) -> None:
    hopeless = replace(TINY, steps=5000, learning_rate=1e-12, patience=2)
    report = run(tmp_path / "model", hopeless)
    assert report.stopped == "no better on dev"
    assert report.steps < 50


def test_too_long_pairs_are_left_out_and_counted(tmp_path: Path) -> None:
    settings = replace(TINY, shape=replace(TINY.shape, max_positions=30))
    report = run(tmp_path / "model", settings)
    assert report.too_long > 0
    assert report.pairs["toy"] + report.too_long == 300 - settings.dev_pairs


def test_too_long_dev_pairs_are_counted_and_refused_if_there_are_no_others(tmp_path: Path) -> None:
    long = SentencePair("ja " * 90, "yes", Origin("long", "1"))
    report = run(tmp_path / "model", dev=lambda: [*make_pairs(20, 9), long])
    assert report.too_long == 1
    with pytest.raises(TrainingError, match="dev: 1 pairs, none of which fits into 64 tokens"):
        run(tmp_path / "other", dev=lambda: [long])


def test_finished_model_is_not_overwritten(trained: Path) -> None:
    before = (trained / "model.safetensors").read_bytes()
    with pytest.raises(TrainingError, match="holds a finished model; add `go_on`"):
        run(trained)
    assert (trained / "model.safetensors").read_bytes() == before


def test_unfinished_run_refuses_other_settings(tmp_path: Path) -> None:
    class Interrupt(Silent):
        def advance(self, amount: float = 1.0, note: str = "") -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "model", progress=Interrupt())
    with pytest.raises(TrainingError, match="unfinished run with other settings"):
        run(tmp_path / "model", replace(TINY, steps=7))


@pytest.mark.parametrize(
    ("prepare", "go_on", "says"), [(True, False, "is not empty"), (False, True, "no finished model")]
)
def test_wrong_folders_are_refused(tmp_path: Path, prepare: bool, go_on: bool, says: str) -> None:
    if prepare:
        (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(TrainingError, match=says):
        run(tmp_path, go_on=go_on)
    assert sorted(path.name for path in tmp_path.iterdir()) == (["mine.txt"] if prepare else [])


def test_too_few_pairs_for_dev_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="too few to hold out 5,000 for dev"):
        run(tmp_path / "model", replace(TINY, dev_pairs=5000))
