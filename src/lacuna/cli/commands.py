"""How the signature of a verb becomes the arguments and options of a command. Knows nothing of particular verbs.

A parameter whose type is a dataclass, a bundle, becomes the options that are its fields. A parameter that
:class:`SettingsOf` annotates becomes the settings of all strategies of a family, such as pruners. So a new strategy
needs no change here: its fields become options, and its docstring their help.

A verb is imported when its command is parsed or its help is shown, and only then are signatures read: the import of
all verbs and strategies, some of which need torch, would make every command slow to start.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand
from typer.main import get_command

# Settings that were given, by name.
Settings = dict[str, Any]

# Settings whose options have other names.
_SPELLINGS = {"nprobe": ("--probes", "--nprobe"), "ef_search": ("--ef", "--ef-search")}
_REFERENCE = r"\{([\w.]+):([\w.]+)\}"


def with_default(text: str, path: str) -> str:
    """Return a help text that names a default, read from the code when the help is shown.

    :param path: ``module:Class.field`` of a dataclass, or ``module:NAME``.
    """
    return f"{text} (default {{{path}}})."


def given(**options: Any) -> Settings:  # noqa: ANN401 - options of any type
    """Drop options that were not given, so that their defaults apply."""
    return {name: value for name, value in options.items() if value is not None}


@dataclass(frozen=True, slots=True)
class SettingsOf:
    """Annotates the parameter of a verb that receives :data:`Settings`.

    :param path: ``module:NAME`` of a family, which is a dict of dataclasses by name; or of a single dataclass, whose
        defaults are not shown.
    """

    path: str

    @property
    def names(self) -> str:
        """The names of the strategies for a help text, read from the code when the help is shown."""
        return f"{{{self.path}}}"

    def options(self) -> list[inspect.Parameter]:
        """Return an option for each setting of any strategy, in the order of the family."""
        family = _look_up(*self.path.split(":"))
        strategies: Mapping[str, type] = family if isinstance(family, Mapping) else {"": family}
        owners: dict[str, dict[str, type]] = {}
        for name, strategy in strategies.items():
            for setting in fields(strategy):
                owners.setdefault(setting.name, {})[name] = strategy
        return [_setting_option(setting, having) for setting, having in owners.items()]


def add_verb(app: typer.Typer, path: str, name: str | None = None) -> None:
    """Add a verb to an app, under its own name or another.

    :param path: ``module:function``.
    """
    command = type("VerbCommand", (VerbCommand,), {"path": path})
    app.command(name or path.partition(":")[2], cls=command)(_not_expanded)


def commands_of(group: Any, words: str = "") -> dict[str, Any]:  # noqa: ANN401 - click's own types
    """Return the commands of all verbs by their names; a verb of two words is in a group of the first one."""
    commands: dict[str, Any] = {}
    for name, command in group.commands.items():
        inner = hasattr(command, "commands")
        commands |= commands_of(command, f"{words}{name} ") if inner else {f"{words}{name}": command}
    return commands


class VerbCommand(TyperCommand):
    """The command of a verb.

    :cvar path: ``module:function`` of the verb.
    """

    path: str
    _params: list[Any]

    @staticmethod
    def load(path: str) -> Callable[..., None]:
        """Import a verb."""
        verb: Callable[..., None] = _look_up(*path.split(":"))
        return verb

    @property
    def help(self) -> str | None:
        """The docstring of the verb, which is read without an import: a list of all verbs shows those of all."""
        module, name = self.path.split(":")
        spec = find_spec(module)
        source = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
        functions = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
        return next((ast.get_docstring(node) for node in functions if node.name == name), None)

    @help.setter
    def help(self, text: str | None) -> None:
        """Ignore the text that a command is made with."""

    @property
    def params(self) -> list[Any]:
        """Arguments and options; with them comes the callback that takes them."""
        if not self._params:
            single = typer.Typer(add_completion=False)
            single.command()(_expand(self.load(self.path)))
            expanded = get_command(single)
            self._params, self.callback = expanded.params, expanded.callback
        return self._params

    @params.setter
    def params(self, params: list[Any]) -> None:
        self._params = params

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - click's own types
        """Write the help, completed by the defaults and names that it refers to."""
        for parameter in self.params:
            if text := getattr(parameter, "help", None):
                text = re.sub(rf" \(default {_REFERENCE}\)", _default_text, text)
                parameter.help = re.sub(_REFERENCE, lambda path: _alternatives(_look_up(*path.groups())), text)
        super().format_help(ctx, formatter)


def _not_expanded() -> None:
    """Stand for the callback of a command until its parameters are read."""


def _expand(verb: Callable[..., None]) -> Callable[..., None]:
    """Return a function with one parameter per argument and option, which calls the verb."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[Callable[..., Any], list[str]]] = {}
    for parameter in inspect.signature(verb, eval_str=True).parameters.values():
        make, members = _members(parameter)
        parameters += members
        if make is not None:
            groups[parameter.name] = make, [member.name for member in members]

    def run(**values: Any) -> None:  # noqa: ANN401 - whatever the verb takes
        made = {
            name: make(**{member: values.pop(member) for member in members}) for name, (make, members) in groups.items()
        }
        verb(**values, **made)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _members(parameter: inspect.Parameter) -> tuple[Callable[..., Any] | None, list[inspect.Parameter]]:
    """Return the options that a parameter becomes, and what makes its value of theirs; ``None`` if it is one itself."""
    for note in getattr(parameter.annotation, "__metadata__", ()):
        if isinstance(note, SettingsOf):
            return given, note.options()
    bundle = parameter.annotation
    if not (isinstance(bundle, type) and is_dataclass(bundle)):
        return None, [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
    hints = get_type_hints(bundle, include_extras=True)
    options = []
    for option in fields(bundle):
        default = option.default_factory() if option.default_factory is not MISSING else option.default
        default = inspect.Parameter.empty if default is MISSING else default
        options.append(_keyword(option.name, hints[option.name], default))
    return bundle, options


def _setting_option(name: str, owners: Mapping[str, type]) -> inspect.Parameter:
    """Return the option of a setting; its help has a sentence for each text and default.

    :param owners: The strategies that have the setting, by name.
    """
    names_of: dict[tuple[str, object], list[str]] = {}
    for owner, strategy in owners.items():
        default = next(setting.default for setting in fields(strategy) if setting.name == name)
        names_of.setdefault((_param_text(strategy, name), default), []).append(owner)
    sentences = []
    for (text, default), names in names_of.items():
        strategy = owners[names[0]]
        named = f"{text} ({', '.join(names)})" if names[0] else text
        if default is None or not names[0]:
            sentences.append(f"{named}.")
        else:
            sentences.append(with_default(named, f"{strategy.__module__}:{strategy.__qualname__}.{name}"))
    option = typer.Option(*_SPELLINGS.get(name, ()), help=" ".join(sentences))
    return _keyword(name, Annotated[_plain_type(get_type_hints(strategy)[name]) | None, option], None)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:  # noqa: ANN401 - those of any option
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _plain_type(hint: Any) -> Any:  # noqa: ANN401 - a type
    """Return the type of an option's value: without ``None``, and ``str`` for words, which the strategy checks."""
    if get_origin(hint) in (Union, UnionType):
        hint = next(kind for kind in get_args(hint) if kind is not NoneType)
    return str if get_origin(hint) is Literal else hint


def _param_text(strategy: type, name: str) -> str:
    """Return the first sentence of the docstring about a field, without its period."""
    about = re.search(rf":param {name}: (.+?)(?:\.\s|\.?$|\.?\n *:)", inspect.getdoc(strategy) or "", re.DOTALL)
    return " ".join(about[1].split()) if about else ""


def _look_up(module: str, path: str) -> Any:  # noqa: ANN401 - whatever has a path
    """Return ``module:NAME``, or the default of ``module:Class.field``."""
    name, _, attribute = path.partition(".")
    value = getattr(import_module(module), name)
    return next(field.default for field in fields(value) if field.name == attribute) if attribute else value


def _default_text(path: re.Match[str]) -> str:
    try:
        return f" (default {_look_up(*path.groups())})"
    except ImportError:  # the module needs an extra that is not installed
        return ""


def _alternatives(names: Mapping[str, object]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}"
