"""Read torch checkpoints that contain more than tensors, without running code from them.

A pickle is a program. Torch's ``weights_only`` reader allows a short list of functions that rebuild tensors. To that
list we add stand-ins for the settings objects of fairseq: classes that only store their arguments. Any other name in
the file is refused before anything is unpickled.
"""

from __future__ import annotations

import _compat_pickle
import pickle
import pickletools
import re
import zipfile
from pathlib import Path
from typing import IO

import torch

from lacuna.errors import ModelError

# What torch needs for tensors; weights_only checks its own, slightly longer list again.
_TENSORS = re.compile(
    r"collections\.OrderedDict|_codecs\.encode|builtins\.set"
    r"|torch\._utils\._rebuild_(tensor|tensor_v2|parameter)|torch\.(storage\.)?\w*Storage"
    r"|torch\.(Size|device|bool|(float|bfloat|int|uint)\d+)"
)
# Names that are replaced by stand-ins. They are used for settings only, so their behavior does not matter.
_SETTINGS = re.compile(
    r"argparse\.Namespace|(fairseq|omegaconf)(\.\w+)+|typing\.Any"
    r"|builtins\.(bool|dict|float|int|list|object|str|tuple)|numpy\.dtype|numpy\._?core\.multiarray\.scalar"
)
# Files of torch before 1.6 begin with three short pickles; this is in the first.
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_SHORT_PICKLES = 3


class StandIn:
    """Replaces an object that must not be created: stores its arguments and attributes, and has no behavior."""

    arguments: tuple[object, ...] = ()

    def __init__(self, *arguments: object) -> None:
        self.arguments = arguments

    def __setstate__(self, state: object) -> None:
        vars(self).update(state if isinstance(state, dict) else {"state": state})


def read_checkpoint_file(path: Path) -> dict[str, object]:
    """Read a file of ``torch.save``, tensors on the CPU; other objects become :class:`StandIn`."""
    is_zip = zipfile.is_zipfile(path)
    names = _names_in(path, is_zip)
    refused = sorted(name for name in names if not _TENSORS.fullmatch(name) and not _SETTINGS.fullmatch(name))
    if refused:
        shown = ", ".join(refused[:3])
        raise ModelError(f"{path}: asks to run {shown}, which is unsafe; nothing was run, do not use the file")
    stand_ins = [(StandIn, name) for name in sorted(names) if _SETTINGS.fullmatch(name)]
    try:
        with torch.serialization.safe_globals(stand_ins):  # type: ignore[arg-type]
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except Exception as error:  # a damaged pickle can raise anything
        raise _unreadable(path, error) from error
    if not isinstance(content, dict):
        raise ModelError(f"{path}: holds a {type(content).__name__} where a checkpoint has names and values")
    return content


def state_of(value: object) -> dict[str, object]:
    """Return the attributes of a settings object: a dict, a namespace, or an omegaconf container."""
    if isinstance(value, StandIn):
        value = vars(value).get("_content", vars(value))
    if not isinstance(value, dict):
        return {}
    return {str(name): _leaf(leaf) for name, leaf in value.items()}


def _leaf(value: object) -> object:
    """Return the value of an omegaconf node or of a member of an enumeration."""
    if not isinstance(value, StandIn):
        return value
    return vars(value).get("_val", value.arguments[0] if len(value.arguments) == 1 else value)


def _names_in(path: Path, is_zip: bool) -> set[str]:
    """List every function and class that the pickle names, by parsing its instructions."""
    try:
        if not is_zip:
            with path.open("rb") as file:
                return _legacy_names(file)
        with zipfile.ZipFile(path) as archive:
            pickles = [name for name in archive.namelist() if name.endswith("data.pkl")]
            if len(pickles) != 1:
                raise ValueError("it does not have exactly one data.pkl")
            with archive.open(pickles[0]) as file:
                return _globals(file)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, NotImplementedError, pickle.UnpicklingError) as error:
        raise _unreadable(path, error) from error


def _legacy_names(file: IO[bytes]) -> set[str]:
    magic = [argument for _, argument, _ in pickletools.genops(file)]
    if _LEGACY_MAGIC not in magic:
        raise ValueError("it does not begin like a torch file")
    names: set[str] = set()
    for _ in range(_SHORT_PICKLES):  # two more short ones, then the content
        names |= _globals(file)
    return names


def _globals(file: IO[bytes]) -> set[str]:
    names = set()
    for instruction, argument, _ in pickletools.genops(file):
        if instruction.name in ("STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4"):
            raise pickle.UnpicklingError(f"instruction {instruction.name}, which torch does not write")
        if instruction.name == "GLOBAL":
            module, name = str(argument).split(" ", 1)
            names.add(f"{_compat_pickle.IMPORT_MAPPING.get(module, module)}.{name}")
    return names


def _unreadable(path: Path, error: Exception) -> ModelError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[-1][:200]
    return ModelError(f"{path}: cannot be read as a torch checkpoint ({reason}); copy or download it again")
