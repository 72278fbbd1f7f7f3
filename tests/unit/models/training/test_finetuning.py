"""From a model folder to a new one: over every supported kind, all weights and adapters alike."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from commands import snapshot
from lacuna.errors import SettingError, TrainingError
from lacuna.models.adapter import Model
from lacuna.models.loading import load_model
from lacuna.models.training import FinetuneReport, FinetuneSettings, LoraSettings, finetune_model
from lacuna.models.training.loop import TrainingLoop
from lacuna.models.training.network import trained_weights
from lacuna.progress import Silent
from lacuna.records import Origin, SentencePair
from unit.models.tiny_models import KINDS, SOURCES, TARGETS, Zoo
from unit.models.training.toy import toy_pairs

LORA = LoraSettings(rank=4)
QUICK = FinetuneSettings(steps=12, learning_rate=1e-2, batch_tokens=200, evaluate_every=4, warmup_steps=2)


def run(
    zoo: Zoo,
    into: Path,
    settings: FinetuneSettings = QUICK,
    kind: str = "marian",
    pairs: Iterable[SentencePair] | None = None,
    dev: Iterable[SentencePair] | None = None,
    **more: Any,
) -> FinetuneReport:
    return finetune_model(
        zoo.folder(kind),
        toy_pairs(60) if pairs is None else pairs,
        into,
        settings,
        dev=toy_pairs(20, seed=5) if dev is None else dev,
        languages=KINDS[kind].languages,
        device="cpu",
        **more,
    )


def reload(folder: Path, kind: str = "marian") -> Model:
    return load_model(folder, languages=KINDS[kind].languages, device="cpu")


def naive_perplexity(model: Model, pairs: list[SentencePair]) -> float:
    sources = model.encode_sources([pair.source for pair in pairs])
    targets = model.encode_targets([pair.target for pair in pairs])
    return float((-model.teacher_force(sources, targets).log_p_gold.double().mean()).exp())


@pytest.mark.parametrize("lora", [None, LORA], ids=["full", "lora"])
def test_the_new_folder_is_a_model_like_the_old_one(
    zoo: Zoo, kind: str, lora: LoraSettings | None, tmp_path: Path
) -> None:
    before = snapshot(zoo.folder(kind))
    report = run(zoo, tmp_path / "new", replace(QUICK, lora=lora), kind)
    assert snapshot(zoo.folder(kind)) == before
    assert report.improved
    old, new = reload(zoo.folder(kind), kind), reload(tmp_path / "new", kind)
    dev = toy_pairs(20, seed=5)
    assert report.perplexity_before == pytest.approx(naive_perplexity(old, dev), rel=1e-4)
    assert report.perplexity_after == pytest.approx(naive_perplexity(new, dev), rel=1e-4)
    assert report.perplexity_after < 0.9 * report.perplexity_before
    assert new.fingerprint != old.fingerprint
    assert new.encode_sources(SOURCES) == old.encode_sources(SOURCES)
    assert new.encode_targets(TARGETS) == old.encode_targets(TARGETS)
    assert (new.start_ids, new.banned_ids, new.languages) == (old.start_ids, old.banned_ids, old.languages)
    assert len(new.generate(SOURCES, beam=2, max_new_tokens=5)) == len(SOURCES)


@pytest.mark.parametrize("kind", ["marian", "fsmt", "m2m100", "t5"])
def test_plain_transformers_takes_it_with_the_habits_of_the_original(zoo: Zoo, kind: str, tmp_path: Path) -> None:
    run(zoo, tmp_path / "new", kind=kind)
    assert (tmp_path / "new" / "generation_config.json").read_bytes() == (
        zoo.folder(kind) / "generation_config.json"
    ).read_bytes()
    theirs = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "new")
    ours = reload(tmp_path / "new", kind).hf.state_dict()
    learned = {name: weight for name, weight in theirs.state_dict().items() if "embed_positions" not in name}
    assert all(torch.equal(weight, ours[name]) for name, weight in learned.items())
    first, second = (AutoTokenizer.from_pretrained(place) for place in (zoo.folder(kind), tmp_path / "new"))
    assert first(SOURCES)["input_ids"] == second(SOURCES)["input_ids"]
    assert not second.init_kwargs.get("split_special_tokens", False)


def test_the_adapter_lies_beside_and_gives_the_same_model(zoo: Zoo, tmp_path: Path) -> None:
    report = run(zoo, tmp_path / "new", replace(QUICK, lora=LORA))
    base = reload(zoo.folder("marian"))
    adapted = PeftModel.from_pretrained(base.hf, str(tmp_path / "new" / "adapter"))
    trained = sum(w.numel() for w in load_file(tmp_path / "new" / "adapter" / "adapter_model.safetensors").values())
    assert report.trained_parameters == trained < report.parameters / 2
    adapted.merge_and_unload()
    new = reload(tmp_path / "new")
    for name, weight in new.hf.state_dict().items():
        torch.testing.assert_close(weight, base.hf.state_dict()[name], atol=1e-6, rtol=1e-6)
    full = run(zoo, tmp_path / "full")
    assert full.trained_parameters == full.parameters == report.parameters


def test_loss_falls_as_it_learns(zoo: Zoo, tmp_path: Path) -> None:
    report = run(zoo, tmp_path / "new", replace(QUICK, steps=75, evaluate_every=15))
    curve = json.loads((tmp_path / "new" / "lacuna.json").read_text())["runs"][-1]["curve"]
    steps, losses, perplexities = zip(*curve, strict=True)
    assert steps == (15, 30, 45, 60, 75)
    assert losses[-1] < 0.7 * losses[0]
    assert min(perplexities) == report.perplexity_after < report.perplexity_before / 4


@pytest.mark.parametrize("lora", [None, LORA], ids=["full", "lora"])
def test_same_seed_same_weights_and_broken_off_too(zoo: Zoo, lora: LoraSettings | None, tmp_path: Path) -> None:
    class Interrupt(Silent):
        steps = 0

        def advance(self, amount: float = 1.0, note: str = "") -> None:
            self.steps += bool(note)  # only steps have one
            if self.steps == 7:
                raise KeyboardInterrupt

    settings = replace(QUICK, lora=lora, save_every=3)
    run(zoo, tmp_path / "whole", settings)
    with pytest.raises(KeyboardInterrupt):
        run(zoo, tmp_path / "broken", settings, progress=Interrupt())
    assert not (tmp_path / "broken").exists()
    assert (tmp_path / "broken.training" / "state.safetensors").exists()
    with pytest.raises(TrainingError, match=r"broken\.training: holds an unfinished run with other pairs"):
        run(zoo, tmp_path / "broken", replace(settings, steps=13))
    resumed = run(zoo, tmp_path / "broken", settings)
    run(zoo, tmp_path / "other", replace(settings, seed=2))
    whole, broken, other = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "broken", "other"))
    assert resumed.steps == 12
    assert all(torch.equal(weight, broken[name]) for name, weight in whole.items())
    assert not all(torch.equal(weight, other[name]) for name, weight in whole.items())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "other", "whole"]


def test_a_checkpoint_of_version_0_1_resumes_with_the_same_result(zoo: Zoo, tmp_path: Path) -> None:
    class Interrupt(Silent):
        def advance(self, amount: float = 1.0, note: str = "") -> None:
            if "step 7 " in note:
                raise KeyboardInterrupt

    settings = replace(QUICK, save_every=3)
    run(zoo, tmp_path / "whole", settings)
    with pytest.raises(KeyboardInterrupt):
        run(zoo, tmp_path / "killed", settings, progress=Interrupt())
    state = tmp_path / "killed.training" / "state.safetensors"
    with safe_open(state, framework="pt") as file:
        counters = json.loads(file.metadata()["counters"])
    for name in ("epoch", "batch", "snapshots"):
        del counters[name]
    save_file(load_file(state), state, metadata={"counters": json.dumps(counters)})
    (tmp_path / "killed.training" / "log.jsonl").unlink()
    run(zoo, tmp_path / "killed", settings)
    whole, killed = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "killed"))
    assert all(torch.equal(weight, killed[name]) for name, weight in whole.items())


def test_a_finished_run_is_not_done_again_and_not_overwritten(zoo: Zoo, tmp_path: Path) -> None:
    first = run(zoo, tmp_path / "new")
    before = snapshot(tmp_path)
    again = run(zoo, tmp_path / "new")
    assert again == replace(first, finished_before=True)
    with pytest.raises(TrainingError, match="fine-tuned with other pairs, model or settings; name a new folder"):
        run(zoo, tmp_path / "new", replace(QUICK, steps=13))
    with pytest.raises(TrainingError, match="already there and not empty"):
        run(zoo, zoo.folder("marian"))
    assert snapshot(tmp_path) == before


def fake_dev(monkeypatch: pytest.MonkeyPatch, perplexities: list[float]) -> list[dict[str, torch.Tensor]]:
    """Let dev say these numbers, one at each look; return the trained weights as they were at each."""
    said, seen = iter(perplexities), []

    def look(self: TrainingLoop) -> float:
        seen.append({name: weight.detach().clone() for name, weight in trained_weights(self.recipe.module).items()})
        return next(said)

    monkeypatch.setattr(TrainingLoop, "dev_perplexity", look)
    return seen


def test_the_weights_of_the_best_look_at_dev_are_kept(
    zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = fake_dev(monkeypatch, [10.0, 9.0, 8.0, 8.5, 8.0])
    report = run(zoo, tmp_path / "new", replace(QUICK, steps=1000, patience=2))
    assert (report.perplexity_before, report.perplexity_after) == (10.0, 8.0)
    assert (report.improved, report.best_step, report.steps, report.stopped) == (True, 8, 16, "no better on dev")
    kept = reload(tmp_path / "new").hf.state_dict()
    assert all(torch.equal(kept[name], weight) for name, weight in seen[2].items())


@pytest.mark.parametrize("lora", [None, LORA], ids=["full", "lora"])
def test_without_a_gain_the_original_weights_are_the_result(
    zoo: Zoo, lora: LoraSettings | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_dev(monkeypatch, [10.0, 11.0, 10.0])
    report = run(zoo, tmp_path / "new", replace(QUICK, lora=lora, steps=1000, patience=2))
    assert (report.improved, report.best_step, report.steps) == (False, 0, 8)
    assert report.perplexity_after == report.perplexity_before == 10.0
    assert reload(tmp_path / "new").fingerprint == zoo.model("marian").fingerprint


def test_a_loaded_model_is_left_as_it_is(zoo: Zoo, tmp_path: Path) -> None:
    model = reload(zoo.folder("t5"), "t5")
    before = {name: weight.clone() for name, weight in model.hf.state_dict().items()}
    finetune_model(model, toy_pairs(60), tmp_path / "new", replace(QUICK, lora=LORA, dropout=0.3))
    assert all(torch.equal(weight, before[name]) for name, weight in model.hf.state_dict().items())
    assert not any(weight.requires_grad for weight in model.hf.parameters())
    assert not model.hf.training


def test_some_pairs_are_held_out_where_there_is_no_dev(zoo: Zoo, tmp_path: Path) -> None:
    settings = replace(QUICK, steps=1, held_out=5)
    many = finetune_model(zoo.folder("marian"), toy_pairs(60), tmp_path / "a", settings)
    few = finetune_model(zoo.folder("marian"), toy_pairs(30), tmp_path / "b", settings)
    assert (many.pairs, many.dev_pairs, many.held_out) == (55, 5, 5)
    assert (few.pairs, few.dev_pairs, few.held_out) == (27, 3, 3)
    with pytest.raises(TrainingError, match="9 training pairs are too few"):
        finetune_model(zoo.folder("marian"), toy_pairs(9), tmp_path / "c", settings)
    assert not (tmp_path / "c").exists()


def test_too_long_pairs_are_left_out_and_counted(zoo: Zoo, tmp_path: Path) -> None:
    long = SentencePair("ja " * 70, "yes", Origin("toy.tsv", "61")), SentencePair("ja", "yes " * 70, Origin("t", "62"))
    report = run(zoo, tmp_path / "new", pairs=[*toy_pairs(60), *long], dev=[*toy_pairs(20), long[0]])
    assert (report.pairs, report.dev_pairs, report.held_out, report.too_long) == (60, 20, 0, 3)
    with pytest.raises(TrainingError, match="dev: 2 pairs, none of which fits into 64 tokens"):
        run(zoo, tmp_path / "other", dev=long)


def test_the_card_tells_where_the_model_comes_from(zoo: Zoo, tmp_path: Path) -> None:
    report = run(zoo, tmp_path / "new")
    card = json.loads((tmp_path / "new" / "lacuna.json").read_text())
    (told,) = card["runs"]
    assert card["fingerprint"] == reload(tmp_path / "new").fingerprint
    assert told["plan"]["base"] == zoo.model("marian").fingerprint
    assert told["plan"]["settings"]["learning_rate"] == QUICK.learning_rate
    assert told["data"] == {"corpus": ["toy.tsv"], "dev": ["toy.tsv"]}
    assert told["report"]["perplexity_after"] == report.perplexity_after
    assert str(tmp_path) not in json.dumps(card)
    second = finetune_model(tmp_path / "new", toy_pairs(60, seed=1), tmp_path / "newer", QUICK)
    history = json.loads((tmp_path / "newer" / "lacuna.json").read_text())["runs"]
    assert [entry["report"]["perplexity_after"] for entry in history] == [
        report.perplexity_after,
        second.perplexity_after,
    ]


def test_all_files_follow_the_umask(zoo: Zoo, tmp_path: Path) -> None:
    run(zoo, tmp_path / "new", replace(QUICK, lora=LORA))
    (tmp_path / "plain").touch()
    modes = {path.name: path.stat().st_mode for path in (tmp_path / "new").rglob("*") if path.is_file()}
    assert modes == dict.fromkeys(modes, (tmp_path / "plain").stat().st_mode)


def test_unknown_layers_leave_no_trace(zoo: Zoo, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="got query; the model's linear layers are"):
        run(zoo, tmp_path / "new", replace(QUICK, lora=LoraSettings(targets=("query",))))
    assert list(tmp_path.iterdir()) == []
