"""``lacuna serve``: translate and explain over HTTP, with a web page."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from lacuna.cli.commands import given, with_default
from lacuna.cli.options import CalibrationFolder, FallbackOption, Json, ModelOptions, refuse_with_domain, use_threads
from lacuna.cli.render import print_json
from lacuna.errors import SettingError, needs_extra

if TYPE_CHECKING:
    from lacuna.domain import Domain
    from lacuna.glossaries import Glossary
    from lacuna.records import Languages
    from lacuna.serving import Engine

Opened = TypeVar("Opened")

_KEY_VARIABLE = "LACUNA_API_KEY"
_WRITE_VARIABLE = "LACUNA_WRITE_KEY"
_LIMITS = "lacuna.serving.limits:ServerLimits"


def serve(
    system: ModelOptions,
    memory: Annotated[
        list[str] | None,
        typer.Option(
            "--memory",
            metavar="NAME=STORE",
            help="A memory (folder, or milvus://HOST/COLLECTION) and its name; may be given several times.",
        ),
    ] = None,
    combiner: Annotated[
        list[str] | None,
        typer.Option(
            "--combiner", metavar="NAME=FOLDER", help="From lacuna fit; one with the name of a memory is used with it."
        ),
    ] = None,
    calibration: CalibrationFolder = None,
    glossary: Annotated[
        list[str] | None,
        typer.Option(
            "--glossary",
            metavar="NAME=FILE",
            help="Terms and their translations; one with the name of a memory is used with it. May be given several "
            "times. A domain has its own, which this replaces.",
        ),
    ] = None,
    domain: Annotated[
        list[str] | None,
        typer.Option(
            "--domain",
            metavar="NAME=DOMAIN",
            help="Folder of lacuna adapt, instead of model, memory, combiner, calibration; may be given several times, "
            "also for several languages.",
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(help=with_default("Address to listen on; 0.0.0.0 for all addresses", "lacuna.serving.app:HOST")),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help=with_default("Port to listen on; 0 for any free port", "lacuna.serving.app:PORT"))
    ] = None,
    api_key_file: Annotated[
        Path | None, typer.Option(help=f"File with the key that clients must send; or set {_KEY_VARIABLE}.")
    ] = None,
    write_key_file: Annotated[
        Path | None,
        typer.Option(
            help=f"File with the key for edits of memories and glossaries, off without; or set {_WRITE_VARIABLE}."
        ),
    ] = None,
    writable: Annotated[
        bool, typer.Option("--writable", help="Take edits without a key, from this machine, on a server without keys.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A name that a server without a key answers to, besides localhost, --host and all IP addresses; * for "
            "any; may be given several times.",
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="A site whose pages may use the server from a browser (CORS), such as https://example.org; * for all; "
            "may be given several times.",
        ),
    ] = None,
    max_characters: Annotated[
        int | None, typer.Option(help=with_default("Maximum characters of a text", f"{_LIMITS}.max_characters"))
    ] = None,
    max_texts: Annotated[
        int | None, typer.Option(help=with_default("Maximum sentences of a request", f"{_LIMITS}.max_texts"))
    ] = None,
    max_body_bytes: Annotated[
        int | None, typer.Option(help=with_default("Maximum bytes of a request", f"{_LIMITS}.max_body_bytes"))
    ] = None,
    max_file_bytes: Annotated[
        int | None, typer.Option(help=with_default("Maximum bytes of a file to translate", f"{_LIMITS}.max_file_bytes"))
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option(help=with_default("Maximum seconds of a request", f"{_LIMITS}.max_seconds"))
    ] = None,
    without_memory_on_failure: FallbackOption = False,
    json: Json = False,
) -> None:
    """Translate and explain over HTTP: our API, that of LibreTranslate, and a web page.

    The first memory is the default for requests that name no memory and no languages. SIGTERM or Ctrl-C ends the
    server after all requests that have arrived are answered.

    Example: `lacuna serve --domain it`

    Example: `lacuna serve --domain it=de-en-it --domain law=zh-en-law`, for two languages

    Example: `lacuna serve --memory it=it-store --combiner it=it-adaptive`, then open http://127.0.0.1:8017
    """
    with needs_extra("serve", "lacuna serve"):
        from lacuna.serving import Access, ServerLimits
        from lacuna.serving import serve as run
    bounds = given(max_characters=max_characters, max_texts=max_texts)
    sizes = given(max_body_bytes=max_body_bytes, max_file_bytes=max_file_bytes)
    limits = ServerLimits(**bounds, **sizes, **given(max_seconds=max_seconds))
    key = _read_key(api_key_file, "--api-key-file", _KEY_VARIABLE)
    write_key = _read_key(write_key_file, "--write-key-file", _WRITE_VARIABLE)
    access = Access(
        key, write_key, writable, allow_host=tuple(allow_host or ()), allow_origin=tuple(allow_origin or ())
    )
    if domain:
        refuse_with_domain(
            model=system.model,
            languages=system.languages,
            memory=memory,
            combiner=combiner,
            calibration=calibration,
        )
        engines = _open_domains(system, domain, glossary or [], without_memory_on_failure)
    else:
        engines = [_open(system, memory or [], combiner or [], calibration, glossary or [], without_memory_on_failure)]

    def announce(url: str) -> None:
        memories = [name for engine in engines for name in engine.memories]
        if json:
            combiners = [name for engine in engines for name in engine.combiners]
            glossaries = [name for engine in engines for name in engine.glossaries]
            return print_json({"url": url, "memories": memories, "combiners": combiners, "glossaries": glossaries})
        models = ", ".join(engine.model.name for engine in engines)
        typer.echo(f"serving {models} with {', '.join(memories) or 'no memory'} at {url}")

    address = given(host=host, port=port)
    # faiss keeps a number of threads for each of our threads.
    run(engines, limits, **address, access=access, prepare=lambda: use_threads(system.threads), announce=announce)


def _open(
    system: ModelOptions,
    memory: list[str],
    combiner: list[str],
    calibration: Path | None,
    glossary: list[str],
    fallback: bool,
) -> Engine:
    from lacuna.combiners import load_combiner
    from lacuna.memory import open_memory
    from lacuna.serving import Engine
    from lacuna.translator.calibration import load_calibration

    memories = [_named("--memory", given, open_memory) for given in memory]
    combiners = [_named("--combiner", given, lambda folder, name: (name, load_combiner(folder))) for given in combiner]
    measured = None if calibration is None else load_calibration(calibration)
    names = [name for name, _ in combiners]
    if len(set(names)) < len(names):
        raise SettingError(f"--combiner: got the names {', '.join(names)}; give each its own")
    calibrations = {} if measured is None else {memory.name: measured for memory in memories}
    model = system.load()
    glossaries = _open_glossaries(glossary, model.languages)
    return Engine(
        model, memories, dict(combiners), calibrations, glossaries=list(glossaries.values()), fallback=fallback
    )


def _open_glossaries(options: list[str], languages: Languages | None) -> dict[str, Glossary]:
    """Read glossaries, by name."""
    from lacuna.glossaries import Glossary, load_glossary

    def load(file: str, name: str) -> Glossary:
        return Glossary(load_glossary(file, languages=languages), name, Path(file))

    named = (option if "=" in option else f"{Path(option).stem}={option}" for option in options)
    glossaries = [_named("--glossary", option, load) for option in named]
    names = [glossary.name for glossary in glossaries]
    if len(set(names)) < len(names):
        raise SettingError(f"--glossary: got the names {', '.join(names)}; give each its own")
    return dict(zip(names, glossaries, strict=True))


def _open_domains(system: ModelOptions, given: list[str], glossary: list[str], fallback: bool) -> list[Engine]:
    """Return one engine for each model: domains of the same model and languages share it."""
    from lacuna.domain import open_domain
    from lacuna.domain.manifest import read_domain_manifest

    use_threads(system.threads)
    loaded: dict[tuple[str, str | None], dict[str, Domain]] = {}
    for name, folder in [_named("--domain", option, lambda folder, name: (name, Path(folder))) for option in given]:
        manifest = read_domain_manifest(folder)
        domains = loaded.setdefault((manifest.model.fingerprint, manifest.languages), {})
        if name in domains:
            raise SettingError(f"--domain: got the name {name} twice; give each its own, as in NAME=DOMAIN")
        same = next(iter(domains.values()), None)
        domains[name] = open_domain(folder, device=system.device, model=same.model if same else None)
    first, *others = loaded.values()
    if others and glossary:
        raise SettingError("--glossary: given with domains of several languages; put it into a domain, as glossary.tsv")
    glossaries = _open_glossaries(glossary, next(iter(first.values())).model.languages)
    return [_domain_engine(domains, glossaries, fallback) for domains in (first, *others)]


def _domain_engine(domains: dict[str, Domain], glossaries: dict[str, Glossary], fallback: bool) -> Engine:
    """Return an engine of domains of the same model.

    :param glossaries: Instead of those of the domains with these names, and others.
    """
    from lacuna.domain.domain_folder import GLOSSARY
    from lacuna.glossaries import Glossary
    from lacuna.serving import Engine

    systems = {name: domain.open_system(name) for name, domain in domains.items()}
    own = {
        name: Glossary(systems[name].glossary or (), name, domain.path / GLOSSARY) for name, domain in domains.items()
    }
    return Engine.of(systems, glossaries=list((own | glossaries).values()), fallback=fallback)


def _named(option: str, given: str, open_it: Callable[[str, str], Opened]) -> Opened:
    """Read NAME=FOLDER; the default name is that of the folder, or of the collection of an address."""
    name, equals, folder = given.partition("=")
    if not equals or ":" in name:  # an address may have settings, as in milvus://HOST/COLLECTION?deadline=2
        name, folder = Path(given.partition("?")[0]).name, given
    if not name or not folder:
        raise SettingError(f"{option}: got {given!r}; write {'NAME=FILE' if option == '--glossary' else 'NAME=FOLDER'}")
    return open_it(folder, name)


def _read_key(file: Path | None, option: str, variable: str) -> str | None:
    """Read a key. It is never given on the command line, where every user of the machine could read it."""
    key = os.environ.get(variable)
    if file is None and not key:
        return None
    if file is not None:
        if key:
            raise SettingError(f"{option}: given although {variable} is set; leave one of them out")
        try:
            key = file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingError(f"{option}: {file} cannot be read ({error}); write the key into it") from error
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise SettingError(f"{option}: got no key, or one with blanks; allowed is ASCII without blanks")
    return key
