"""Options that verbs share, bundles of them, and opening what they name. Knows nothing of particular verbs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from lacuna.cli.commands import given, with_default
from lacuna.datastore.manifest import MANIFEST
from lacuna.datastore.segments import MEMORY
from lacuna.errors import LacunaError, SettingError
from lacuna.records import Languages, SentencePair

if TYPE_CHECKING:
    from lacuna.combiners import Combiner, Gate
    from lacuna.glossaries import Glossary
    from lacuna.memory import Memory
    from lacuna.models import Model
    from lacuna.translator import System, Translator
    from lacuna.workers.dask_pool import DaskPool


def parse_languages(text: str) -> Languages:
    """Read a direction such as ``de-en``."""
    try:
        return Languages.parse(text)
    except LacunaError as error:
        raise typer.BadParameter(str(error)) from error


def parse_precision(text: str) -> str:
    """Read the name of a precision; ``bf16`` is short for ``bfloat16``."""
    return "bfloat16" if text == "bf16" else text


CORPUS_HELP = "A bilingual file, a folder of them, a pattern in quotes, or the prefix of two plain files."
ModelName = Annotated[str | None, typer.Option("--model", help="Model folder or hub name; default: the bundled model.")]
_MEMORY_HELP = "Store folder, or milvus://HOST/COLLECTION; may be given several times."
MemoryPaths = Annotated[list[str], typer.Option("--memory", help=_MEMORY_HELP)]
OptionalMemoryPaths = Annotated[list[str] | None, typer.Option("--memory", help=_MEMORY_HELP)]
TagOption = Annotated[
    str | None, typer.Option("--tag", help="Search only entries of pairs with this label, such as a client.")
]
FallbackOption = Annotated[
    bool,
    typer.Option(
        "--without-memory-on-failure",
        help="If a memory on a server does not answer, translate with the model alone, and say so.",
    ),
]
MemoryPath = Annotated[Path, typer.Argument(metavar="MEMORY", help="Folder of a memory, or of a domain.")]
DomainFolder = Annotated[
    Path | None,
    typer.Option("--domain", help="Folder of lacuna adapt, instead of model, memory, combiner, calibration."),
]
CombinerFolder = Annotated[
    Path | None, typer.Option("--combiner", help="Folder of lacuna fit, instead of --k, --knn-weight, --temperature.")
]
NeighborCount = Annotated[
    int | None, typer.Option("--k", help=with_default("Neighbors per token", "lacuna.combiners:Vanilla.k"))
]
KnnWeight = Annotated[
    float | None,
    typer.Option(
        "--knn-weight",
        help=with_default("Share of the kNN distribution; 0 is the model alone", "lacuna.combiners:Vanilla.knn_weight"),
    ),
]
Temperature = Annotated[
    float | None,
    typer.Option(
        "--temperature", help=with_default("Divides squared distances", "lacuna.combiners:Vanilla.temperature")
    ),
]
GlossaryFile = Annotated[
    Path | None,
    typer.Option(
        "--glossary", metavar="FILE", help="Terms and their translations: TSV, CSV or TBX; see lacuna glossary."
    ),
]
StrictTerms = Annotated[
    bool,
    typer.Option(
        "--strict-terms",
        help="A translation that lacks a term is made again so that it must have it, instead of asking gently first.",
    ),
]
BeamWidth = Annotated[
    int | None, typer.Option("--beam", help=with_default("Beam width", "lacuna.decoding:BeamSettings.beam"))
]
CalibrationFolder = Annotated[
    Path | None, typer.Option("--calibration", help="Folder of lacuna calibrate, for confidence.")
]
LanguagesOption = Annotated[
    Languages | None,
    typer.Option("--languages", parser=parse_languages, metavar="SRC-TGT", help="Direction, such as de-en."),
]
DevPairs = Annotated[int, typer.Option("--pairs", min=1, help="Maximum number of dev pairs.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1, mps.")]
Threads = Annotated[int | None, typer.Option("--threads", help="CPU threads; default: all cores.")]
Precision = Annotated[
    str,
    typer.Option(
        "--precision",
        parser=parse_precision,
        metavar="PRECISION",
        help="Of the forward pass. With bf16, a CPU with such products is about twice as fast; see docs/datastore.md. "
        "A GPU also has half precision.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Options of every verb that runs a model."""

    model: ModelName = None
    languages: LanguagesOption = None
    device: Device = "auto"
    threads: Threads = None

    def load(self, precision: str = "float32") -> Model:
        """Load the model; torch and transformers are slow to import, so not before this."""
        from lacuna.models import load_model

        use_threads(self.threads)
        return load_model(self.model, device=self.device, languages=self.languages, precision=precision)

    def load_for(self, memory: str | Path) -> tuple[str, Model]:
        """Return the place of a memory and load its model; a domain has its own."""
        place = memory_place(memory)
        if place == str(memory):
            return place, self.load()
        from lacuna.domain import open_domain

        refuse_with_domain(model=self.model)
        use_threads(self.threads)
        return place, open_domain(memory, device=self.device).model

    def read_pairs(self, corpus: str, most: int) -> list[SentencePair]:
        """Read the first pairs of a corpus."""
        from lacuna.corpora import read_corpus

        return list(islice(read_corpus(corpus, languages=self.languages), most))


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Options of every verb that can use the workers of a Dask cluster."""

    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Dask scheduler whose workers do the work, as tcp://host:port."),
    ] = None
    workers: Annotated[
        int | None, typer.Option(help="Start this many worker processes on this machine, and let them do the work.")
    ] = None

    @property
    def given(self) -> bool:
        """Whether there is any of the options."""
        return self.scheduler is not None or self.workers is not None

    def open(
        self, *, reads: Sequence[Path] = (), writes: Sequence[Path] = ()
    ) -> AbstractContextManager[DaskPool | None]:
        """Connect to the workers, or start them; without any of the options there is no pool.

        :param reads: Folders that all workers must see.
        :param writes: Folders that all workers must be able to write into.
        """
        if not self.given:
            return nullcontext()
        from lacuna.workers.dask_pool import open_pool

        return open_pool(self.scheduler, self.workers, reads=reads, writes=writes)


@dataclass(frozen=True, kw_only=True)
class MemoryOptions(ModelOptions):
    """Options of every verb that needs memories."""

    memory: MemoryPaths

    def open_memories(self) -> list[Memory]:
        """Open memories under the names of their folders; under the whole path where two folders have one name."""
        from lacuna.memory import open_memory

        names = [Path(path).name for path in self.memory]
        return [
            open_memory(path, path if names.count(name) > 1 else name)
            for path, name in zip(self.memory, names, strict=True)
        ]


@dataclass(frozen=True, kw_only=True)
class SystemOptions(MemoryOptions):
    """Options of every verb that translates with memories, given one by one or as a domain."""

    needs_memory: ClassVar[bool] = True
    memory: MemoryPaths = field(default_factory=list)
    domain: DomainFolder = None
    combiner: CombinerFolder = None
    k: NeighborCount = None
    knn_weight: KnnWeight = None
    temperature: Temperature = None
    beam: BeamWidth = None
    tag: TagOption = None
    glossary: GlossaryFile = None
    strict_terms: StrictTerms = False

    def open(
        self,
        *,
        calibration: Path | None = None,
        length_penalty: float | None = None,
        gate: bool = False,
        int8: bool | None = None,
        fallback: bool = False,
    ) -> Translator:
        """Open the domain; or the model, the memories, the combiner and the calibration."""
        from lacuna.combiners import Vanilla
        from lacuna.decoding import BeamSettings
        from lacuna.translator import System, load_calibration

        beam = BeamSettings(**given(beam=self.beam, length_penalty=length_penalty))
        if self.domain is not None:
            more = {"beam": beam, "fallback": fallback, **given(int8=int8), **self._terms()}
            return self._open_domain(self.domain, more, calibration=calibration, gate=gate or None)
        if self.needs_memory and not self.memory:
            raise SettingError("no memory to search; give --memory STORE or --domain DOMAIN")
        loaded = None if calibration is None else load_calibration(calibration)
        combiner, memories = self._combiner(), self._tagged(self.open_memories())
        if combiner is not None:
            check_k(combiner.k, memories)
        as_given = isinstance(combiner, Vanilla)  # settings of the user are followed to the letter
        system = System(
            self.load(),
            memories,
            combiner,
            beam,
            gate=self._gate(memories) if gate else None,
            calibration=loaded,
            exact_contexts=not as_given,
            guard_ends=not as_given,
            int8=int8,
            fallback=fallback,
            **self._terms(),
        )
        check_strict(self.strict_terms, system.glossary)
        return system.open()

    def _open_domain(self, folder: Path, more: dict[str, Any], **options: object) -> Translator:
        from lacuna.domain import open_domain

        own = ("model", "languages", "memory", "combiner", "k", "knn_weight", "temperature")
        refuse_with_domain(**{name: getattr(self, name) for name in own}, **options)
        use_threads(self.threads)
        system: System = open_domain(folder, device=self.device).system
        system = replace(system, memories=self._tagged(system.memories), **more)
        check_strict(self.strict_terms, system.glossary)
        return system.open()

    def _terms(self) -> dict[str, Any]:
        """Return the glossary and its use, as far as they are given."""
        return given(glossary=open_glossary(self.glossary, self.languages), strict_terms=self.strict_terms or None)

    def _tagged(self, memories: Sequence[Memory]) -> list[Memory]:
        return list(memories) if self.tag is None else [memory.tagged(self.tag) for memory in memories]

    def _combiner(self) -> Combiner | None:
        """Open the fitted combiner, or create a vanilla one from its settings; ``None`` if there is neither."""
        from lacuna.combiners import Vanilla, load_combiner

        settings = given(k=self.k, knn_weight=self.knn_weight, temperature=self.temperature)
        if self.combiner is None:
            return Vanilla(**settings) if settings else None
        if settings:
            names = ", ".join(f"--{name.replace('_', '-')}" for name in settings)
            raise SettingError(f"{names}: given with --combiner, which has its own; leave one of them out")
        return load_combiner(self.combiner)

    def _gate(self, memories: Sequence[Memory]) -> Gate:
        from lacuna.combiners import load_gate

        if self.combiner is None or not memories:
            raise SettingError("--gate: a gate belongs to a fitted combiner; give --memory and --combiner as well")
        return load_gate(self.combiner)[0]


@dataclass(frozen=True, kw_only=True)
class OptionalSystemOptions(SystemOptions):
    """The same for a verb that also translates without memories."""

    needs_memory: ClassVar[bool] = False


def open_glossary(file: Path | None, languages: Languages | None = None) -> Glossary | None:
    """Read a glossary, if there is one.

    :param languages: The direction; a TBX file with more than two languages needs it.
    """
    if file is None:
        return None
    from lacuna.glossaries import load_glossary

    return load_glossary(file, languages=languages)


def check_strict(strict: bool, glossary: Glossary | None) -> None:
    """Refuse strict terms without a glossary."""
    if strict and glossary is None:
        raise SettingError("--strict-terms: given without a glossary; give one with --glossary FILE")


def refuse_with_domain(**options: Any) -> None:  # noqa: ANN401 - options of any type
    """Raise if there are options that a domain replaces."""
    names = ", ".join(f"--{name.replace('_', '-')}" for name, value in options.items() if value not in (None, []))
    if names:
        raise SettingError(f"{names}: given with --domain, which has its own; leave one of them out")


def memory_folder(memory: Path) -> Path:
    """Return the folder of a memory: the given one, or that of a domain's memory."""
    if not memory.is_dir() or any((memory / name).is_file() for name in (MANIFEST, MEMORY)):
        return memory  # without the import of all that a domain needs
    from lacuna.domain import memory_of

    return memory_of(memory)


def memory_place(memory: str | Path) -> str:
    """Return the place of a memory: the given folder or address, or the folder of a domain's memory."""
    folder = memory_folder(Path(memory))
    return str(memory if folder == Path(memory) else folder)


def check_k(k: int, memories: Sequence[Memory]) -> None:
    """Raise if k is larger than the number of entries: a search could not return that many neighbors."""
    entries = sum(memory.entries for memory in memories)
    if memories and k > entries:
        raise SettingError(f"k: got {k:,}, but there are only {entries:,} entries; allowed is 1 to {entries:,}")


def check_at_least_one(option: str, value: int) -> None:
    """Raise if a count is less than 1."""
    if value < 1:
        raise SettingError(f"{option}: got {value}; allowed is 1 or more")


def check_output(option: str, file: Path | None) -> None:
    """Raise if a file cannot be written, before slow work."""
    if file is not None and (file.is_dir() or any(parent.is_file() for parent in file.parents)):
        raise SettingError(f"{option}: got {file}, which cannot be a file; name another")


def use_threads(threads: int | None) -> None:
    """Set the number of CPU threads of torch and faiss, if it was given."""
    if threads is None:
        return
    check_at_least_one("--threads", threads)
    from lacuna.workers import use_threads as use_now

    use_now(threads)
