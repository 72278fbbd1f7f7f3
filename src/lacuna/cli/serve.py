"""``lacuna serve``: translations and their reasons over HTTP, and a web page."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from lacuna.cli.options import CalibrationFolder, Device, Json, LanguagesOption, ModelName, Threads, use_threads
from lacuna.cli.render import print_json
from lacuna.errors import MissingExtra, SettingError
from lacuna.records import Languages

if TYPE_CHECKING:
    from lacuna.serving import Engine

Opened = TypeVar("Opened")

_KEY_VARIABLE = "LACUNA_API_KEY"


def serve(
    model: ModelName = None,
    memory: Annotated[
        list[str] | None,
        typer.Option("--memory", metavar="NAME=STORE", help="A memory and its name; may be given several times."),
    ] = None,
    combiner: Annotated[
        list[str] | None,
        typer.Option(
            "--combiner", metavar="NAME=FOLDER", help="From lacuna fit; one named like a memory is used with it."
        ),
    ] = None,
    calibration: CalibrationFolder = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen at (127.0.0.1); 0.0.0.0 for all of this machine.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen at (8017); 0 for any that is free.")] = None,
    api_key_file: Annotated[
        Path | None, typer.Option(help=f"File with the key that clients must send; or set {_KEY_VARIABLE}.")
    ] = None,
    max_characters: Annotated[int | None, typer.Option(help="Most characters of a text (5,000).")] = None,
    max_texts: Annotated[int | None, typer.Option(help="Most lines in a request (256).")] = None,
    max_body_bytes: Annotated[int | None, typer.Option(help="Most bytes of a request (1 MiB).")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Most time for a request (30).")] = None,
    languages: LanguagesOption = None,
    device: Device = "auto",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Translate and explain over HTTP until stopped: an API, LibreTranslate's too, and a web page.

    The first memory is used where a client names none. SIGTERM or Ctrl-C ends it when all that arrived is answered.

    Example: `lacuna serve --memory it=it-store --combiner it=it-adaptive`, then open http://127.0.0.1:8017
    """
    try:
        from lacuna.serving import ServerLimits
        from lacuna.serving import serve as run
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("lacuna"):
            raise
        raise MissingExtra(
            f"serve needs {error.name}, which is not installed; install it with: pip install 'lacuna-mt[serve]'"
        ) from error
    asked = {
        "max_characters": max_characters,
        "max_texts": max_texts,
        "max_body_bytes": max_body_bytes,
        "max_seconds": max_seconds,
    }
    limits = ServerLimits(**_given(asked))
    key = _read_key(api_key_file)
    use_threads(threads)
    engine = _open(model, memory or [], combiner or [], calibration, device, languages)

    def announce(url: str) -> None:
        if json:
            return print_json({"url": url, "memories": list(engine.memories), "combiners": list(engine.combiners)})
        typer.echo(f"serving {engine.model.name} with {', '.join(engine.memories) or 'no memory'} at {url}")

    place = _given({"host": host, "port": port})
    # faiss counts threads for each thread of ours.
    run(engine, limits, **place, key=key, prepare=lambda: use_threads(threads), announce=announce)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Leave out what the user left open: its default stands elsewhere."""
    return {name: value for name, value in options.items() if value is not None}


def _open(
    model: str | None,
    memory: list[str],
    combiner: list[str],
    calibration: Path | None,
    device: str,
    languages: str | None,
) -> Engine:
    from lacuna.combiners import load_combiner
    from lacuna.explanation.calibration import load_calibration
    from lacuna.models import load_model
    from lacuna.serving import Engine
    from lacuna.translator import open_memory

    direction = Languages.parse(languages) if languages else None
    memories = [_named("--memory", given, open_memory) for given in memory]
    combiners = [_named("--combiner", given, lambda folder, name: (name, load_combiner(folder))) for given in combiner]
    measured = None if calibration is None else load_calibration(calibration)
    names = [name for name, _ in combiners]
    if len(set(names)) < len(names):
        raise SettingError(f"--combiner: got the names {', '.join(names)}; give each its own")
    return Engine(load_model(model, device=device, languages=direction), memories, dict(combiners), measured)


def _named(option: str, given: str, open_it: Callable[[str, str], Opened]) -> Opened:
    """Read NAME=FOLDER; without a name, the folder's own is taken."""
    name, equals, folder = given.partition("=")
    if not equals:
        name, folder = Path(given).name, given
    if not name or not folder:
        raise SettingError(f"{option}: got {given!r}; write NAME=FOLDER")
    return open_it(folder, name)


def _read_key(file: Path | None) -> str | None:
    """Find the API key; never on the command line, where everybody on the machine could read it."""
    key = os.environ.get(_KEY_VARIABLE)
    if file is None and not key:
        return None
    if file is not None:
        if key:
            raise SettingError(f"--api-key-file: given although {_KEY_VARIABLE} is set; leave one of them out")
        try:
            key = file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingError(f"--api-key-file: {file} cannot be read ({error}); write the key into it") from error
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise SettingError("API key: got none, or one with blanks or special letters; allowed is ASCII without blanks")
    return key
