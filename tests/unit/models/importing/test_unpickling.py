"""Nothing in a checkpoint is run, and what it holds besides tensors becomes inert."""

from __future__ import annotations

import builtins
import io
import os
import pickle
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lacuna.errors import ModelError
from lacuna.models.importing.unpickling import StandIn, read_checkpoint_file, state_of
from unit.models.importing.fairseq_toy import settings


class Calls:
    """Pickles as the call of a function."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._reduced = (function, arguments)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._reduced


class Restored:
    """Pickles with a state, which ``__setstate__`` of the reader's class would be given."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def __reduce__(self) -> tuple[Any, ...]:
        return Calls, (os.system, "true"), self.state


def write_raw(path: Path, instructions: bytes) -> Path:
    """Write a torch file whose pickle is given byte by byte."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", instructions)
        archive.writestr("archive/version", "3\n")
    return path


def hostile(trap: Path) -> dict[str, Any]:
    touch = f"touch {trap}"
    return {
        "posix.system": Calls(os.system, touch),
        "builtins.eval": Calls(eval, f"open({str(trap)!r}, 'w')"),
        "builtins.exec": Calls(exec, f"open({str(trap)!r}, 'w')"),
        "subprocess.Popen": Calls(subprocess.Popen, ["touch", str(trap)]),
        "builtins.getattr": Calls(getattr, Calls(__import__, "os"), "system"),
        "builtins.__import__": Calls(__import__, "os"),
        "torch.serialization.load": Calls(torch.load, str(trap)),
        "pathlib": Calls(Path.touch, trap),
        "test_unpickling.Calls": Restored({"command": touch}),
    }


@pytest.mark.parametrize("named", sorted(hostile(Path("trap"))))
@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("deep", [False, True])
def test_hostile_checkpoints_run_nothing(tmp_path: Path, named: str, legacy: bool, deep: bool) -> None:
    trap = tmp_path / "trap"
    bad = hostile(trap)[named]
    content = {"args": settings(hidden=[{"deep": bad}]), "model": {}} if deep else bad
    path = tmp_path / "model.pt"
    torch.save(content, path, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(ModelError, match=rf"asks to run .*{named}.*nothing was run") as caught:
        read_checkpoint_file(path)
    assert "\n" not in str(caught.value)
    assert not trap.exists()


def test_the_traps_are_real(tmp_path: Path) -> None:
    """Torch itself, told to trust the file, does fall into one."""
    torch.save(hostile(tmp_path / "trap")["posix.system"], tmp_path / "model.pt")
    torch.load(tmp_path / "model.pt", weights_only=False)
    assert (tmp_path / "trap").exists()


@pytest.mark.parametrize(
    "instructions",
    [
        pytest.param(b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x05touch\x85R.", id="names taken from the stack"),
        pytest.param(b"(S'touch trap'\nios\nsystem\n.", id="instances of protocol 0"),
        pytest.param(b"cargparse\nNamespace\n)\x81}X\x01\x00\x00\x00ac__builtin__\ngetattr\nsb.", id="in a state"),
        pytest.param(b"cfairseq.x\n..posix.system\nX\x05\x00\x00\x00touch\x85R.", id="paths through a module"),
        pytest.param(b"ctorch\nload\n.", id="named only"),
    ],
)
def test_hand_made_pickles_run_nothing(tmp_path: Path, instructions: bytes) -> None:
    with pytest.raises(ModelError):
        read_checkpoint_file(write_raw(tmp_path / "model.pt", instructions))
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]


def test_stand_ins_for_functions_are_inert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that looks like fairseq's is never imported: calling it only notes the arguments."""
    monkeypatch.setattr(builtins, "__import__", _no_import(builtins.__import__))
    raw = b"}X\x04\x00\x00\x00argscfairseq.evil\nrun\nX\x02\x00\x00\x00rm\x85Rs."
    content = read_checkpoint_file(write_raw(tmp_path / "model.pt", raw))
    made = content["args"]
    assert isinstance(made, StandIn)
    assert made.arguments == ("rm",)


def _no_import(real: Callable[..., Any]) -> Callable[..., Any]:
    def importing(name: str, *rest: Any) -> Any:
        assert not name.startswith("fairseq")
        return real(name, *rest)

    return importing


@pytest.mark.parametrize("legacy", [False, True])
def test_reads_settings_and_tensors(tmp_path: Path, legacy: bool) -> None:
    weights = {"a": torch.arange(3.0), "b": torch.ones(2, dtype=torch.float16)}
    # Trainers put numpy's numbers among the rest, as the best loss so far.
    written = {"args": settings(), "model": weights, "extra_state": {"best": np.float64(1.5)}}
    torch.save(written, tmp_path / "x.pt", _use_new_zipfile_serialization=not legacy)
    content = read_checkpoint_file(tmp_path / "x.pt")
    assert state_of(content["args"]) == vars(settings())
    model = content["model"]
    assert isinstance(model, dict)
    assert all(torch.equal(model[name], tensor) for name, tensor in weights.items())


def test_reads_omegaconf_containers() -> None:
    """Their state: ``_content`` has nodes, each of which has ``_val``; enumerations are calls with one value."""
    heads, mode, config = StandIn(), StandIn("relu"), StandIn()
    vars(heads)["_val"] = 8
    vars(config)["_content"] = {"heads": heads, "activation": mode, "plain": 1}
    assert state_of(config) == {"heads": 8, "activation": "relu", "plain": 1}
    assert state_of(None) == {}


@pytest.mark.parametrize("cut", [0, 1, 30, 200, -30])
@pytest.mark.parametrize("legacy", [False, True])
def test_truncated_files(tmp_path: Path, cut: int, legacy: bool) -> None:
    whole = io.BytesIO()
    torch.save({"args": settings(), "model": {"a": torch.ones(64)}}, whole, _use_new_zipfile_serialization=not legacy)
    path = tmp_path / "model.pt"
    path.write_bytes(whole.getvalue()[:cut])
    with pytest.raises(ModelError, match="cannot be read as a torch checkpoint") as caught:
        read_checkpoint_file(path)
    assert "\n" not in str(caught.value)


def test_other_content(tmp_path: Path) -> None:
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(ModelError, match="holds a list"):
        read_checkpoint_file(tmp_path / "list.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps({"model": {}}))
    with pytest.raises(ModelError, match="does not begin like a torch file"):
        read_checkpoint_file(tmp_path / "plain.pt")
