"""What the verbs that translate share: the combiner and the memories that options ask for, and lines of text."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lacuna.errors import CorpusError, SettingError
from lacuna.records import Languages

if TYPE_CHECKING:
    from lacuna.combiners import Combiner, Gate
    from lacuna.translator import Memory, Translator


def make_translator(
    model: str | None,
    memory: Sequence[str],
    weighing: Combiner,
    *,
    beam: int | None,
    languages: str | None,
    device: str,
) -> Translator:
    """Open everything that options name."""
    from lacuna.decoding import BeamSettings
    from lacuna.models import load_model
    from lacuna.translator import Translator

    settings = BeamSettings() if beam is None else BeamSettings(beam=beam)
    direction = Languages.parse(languages) if languages else None
    memories = open_memories(memory)
    check_k(weighing.k, memories)
    return Translator(load_model(model, device=device, languages=direction), memories, weighing, settings)


def open_memories(paths: Sequence[str]) -> list[Memory]:
    """Open memories, each under the name of its folder; under the whole path where two folders have one name."""
    from lacuna.translator import open_memory

    names = [Path(path).name for path in paths]
    return [open_memory(path, path if names.count(name) > 1 else name) for path, name in zip(paths, names, strict=True)]


def choose_combiner(folder: Path | None, settings: dict[str, Any]) -> Combiner:
    """Open a fitted combiner, or make a vanilla one from what was given."""
    from lacuna.combiners import Vanilla, load_combiner

    given = {name: value for name, value in settings.items() if value is not None}
    if folder is None:
        return Vanilla(**given)
    if given:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise SettingError(f"{names}: given beside --combiner, which has its own; leave one of them out")
    return load_combiner(folder)


def open_gate(combiner: Path | None, memories: Sequence[Memory]) -> Gate:
    """Open the gate that was fitted together with a combiner."""
    from lacuna.combiners import load_gate

    if combiner is None or not memories:
        raise SettingError("--gate: a gate belongs to a fitted combiner; give --memory and --combiner as well")
    return load_gate(combiner)[0]


def check_k(k: int, memories: Sequence[Memory]) -> None:
    """Refuse more neighbors than the memories have entries: a search would fill the other places with nothing."""
    entries = sum(memory.store.entries for memory in memories)
    if memories and k > entries:
        raise SettingError(f"k: got {k:,}, but there are only {entries:,} entries; allowed is 1 to {entries:,}")


def read_lines(file: Path | None) -> list[str]:
    """Read a text file, or standard input, line by line."""
    name = str(file) if file else "standard input"
    try:
        content = (file.read_bytes() if file else sys.stdin.buffer.read()).decode("utf-8")
    except OSError as error:
        raise CorpusError(
            f"{name}: cannot be read ({error.strerror}); name a text file with one sentence per line"
        ) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise CorpusError(f"{name}:{line}: not UTF-8; convert the file, for example with: iconv -t UTF-8") from error
    return [line.removesuffix("\r") for line in content.removesuffix("\n").split("\n")] if content else []


def check_output(option: str, file: Path | None) -> None:
    """Refuse a file that cannot be written, before slow work."""
    if file is not None and (file.is_dir() or any(parent.is_file() for parent in file.parents)):
        raise SettingError(f"{option}: got {file}, which cannot be a file; name another")
