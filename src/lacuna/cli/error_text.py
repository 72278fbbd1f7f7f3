"""Error messages of the library in words of the command line: parameters become options.

The library names a parameter at the beginning of a message, as in ``budget: got 0``, or in backticks, as in
``leave `gate` out``. Where the verb has an option for it, the option is shown instead: ``--budget: got 0``. Knows
nothing of particular verbs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

# Parameters whose options have other names.
_OTHER_NAMES = {"python": "comet_python", "target_language": "target", "write_key": "write_key_file"}
_FIRST_NAMES = re.compile(r"[a-z]\w*(?:(?:, | and )[a-z]\w*)*(?=: )")
_MARKED_NAME = re.compile(r"`([a-z]\w*)`")
_VERB = re.compile(r"\blacuna ((\w+)(?: \w+)?)")


def name_options(message: str, verb: str, commands: Mapping[str, Any], arguments: Sequence[str] = ()) -> str:
    """Return a message in which parameters that the verb has an option for are replaced by the option.

    :param verb: The verb that was invoked.
    :param commands: The commands of all verbs, by name. A message may also name options of a verb that it recommends.
    :param arguments: Those of the command line: a file of the name of a parameter remains what it is.
    """
    own = _options(commands.get(verb))
    first = _FIRST_NAMES.match(message)
    if first and first[0] not in arguments:
        message = re.sub(r"\w+", lambda name: own.get(name[0], name[0]), first[0]) + message[first.end() :]
    if not _MARKED_NAME.search(message):
        return message  # without the import of what the options of other verbs are made of
    options: dict[str, str] = {}
    for both, first_word in _VERB.findall(message):
        options |= _options(commands.get(both) or commands.get(first_word))
    options |= own
    return _MARKED_NAME.sub(lambda name: options.get(name[1], name[1]), message)


def _options(command: Any) -> dict[str, str]:  # noqa: ANN401 - click's own type
    """Return the options of a command, each by the name of its parameter and by all of its own names."""
    options: dict[str, str] = {}
    for parameter in command.params if command is not None else ():
        if parameter.param_type_name == "option":
            option = next(name for name in parameter.opts if name.startswith("--"))
            names = [parameter.name, *(name.lstrip("-").replace("-", "_") for name in parameter.opts)]
            options |= dict.fromkeys(names, option)
    others = {name: options[other] for name, other in _OTHER_NAMES.items() if other in options}
    return others | options
