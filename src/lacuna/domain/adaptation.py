"""Adapt a model to a domain: from corpora to a folder with memory, combiner, calibration, scores and a report.

Results of steps are kept in ``DOMAIN/unfinished`` until all are done, so the same call continues after an interruption.
``domain.json`` is written last: a folder without it is not a domain.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lacuna.artifacts.files import check_creatable, check_unused, sync, write_text, writing
from lacuna.artifacts.locks import alone
from lacuna.corpora import write_tsv
from lacuna.datastore.manifest import ModelIdentity
from lacuna.domain.corpus_parts import CorpusParts, read_parts
from lacuna.domain.decisions import Decisions, dropped_share
from lacuna.domain.domain_folder import (
    CALIBRATION,
    COMBINER,
    GLOSSARY,
    MEMORY,
    SYSTEM,
    Domain,
    open_domain,
    read_system_record,
    system_record,
    write_system_record,
)
from lacuna.domain.domain_page import PAGE, DomainExamples, find_examples, render_domain
from lacuna.domain.manifest import (
    MANIFEST,
    DomainCandidate,
    DomainCombiner,
    DomainManifest,
    DomainMemory,
    DomainPairs,
    DomainScore,
    read_domain_manifest,
    write_domain_manifest,
)
from lacuna.errors import DomainError, LacunaWarning, SettingError
from lacuna.evaluation import check_target_language
from lacuna.fitting.pruning_choice import MAX_LOSS, check_promise
from lacuna.glossaries import load_glossary, write_glossary
from lacuna.models import load_model
from lacuna.progress import SILENT, Progress
from lacuna.records import Languages

UNFINISHED = "unfinished"
_DEV, _TEST = "dev.tsv", "test.tsv"
# Everything that is in the folder of a domain, in the order in which it is put there.
_NAMES = (MEMORY, COMBINER, CALIBRATION, GLOSSARY, _DEV, _TEST, PAGE, SYSTEM, MANIFEST)


@alone("into")
def adapt(
    corpora: str | Path | Sequence[str | Path],
    into: str | Path,
    *,
    dev: str | Path | None = None,
    test: str | Path | None = None,
    model: str | Path | None = None,
    languages: Languages | None = None,
    budget: float | None = None,
    max_loss: float = MAX_LOSS,
    glossary: str | Path | None = None,
    seed: int = 1,
    device: str = "auto",
    precision: str = "float32",
    progress: Progress = SILENT,
) -> Domain:
    """Adapt a model to a domain.

    The same call continues after an interruption. If the domain is already finished, it is opened.

    :param corpora: One or more corpora, as :func:`~lacuna.corpora.read_corpus` takes them.
    :param into: Folder of the domain.
    :param dev: A dev corpus; otherwise, some pairs are split off, if there are enough. The same for ``test``.
    :param model: A folder, or a name on the Hugging Face hub; ``None`` for the bundled model.
    :param languages: The direction; by default, that of the model.
    :param budget: Time limit in minutes. It leaves out optional steps first, then pairs; the report says which.
    :param max_loss: Largest share of what the memory adds that pruning may lose; see docs/prune.md.
    :param glossary: A file of terms, which the domain keeps; see docs/glossaries.md.
    :param precision: Of the passes over the corpora, as in :func:`~lacuna.models.load_model`; translations are not
        affected.
    :raises DomainError: The folder has a domain made from something else, or other files.
    """
    if budget is not None and not 0 < budget < float("inf"):
        raise SettingError(f"budget: got {budget:g}; allowed is a number of minutes above 0")
    check_promise(max_loss)
    terms = None if glossary is None else load_glossary(Path(glossary))
    folder, named = Path(into), [corpora] if isinstance(corpora, str | Path) else list(corpora)
    _check_folder(folder)
    loaded = load_model(model, device=device, languages=languages, precision=precision)
    direction = languages or loaded.languages
    check_target_language(loaded.target_language)
    parts = read_parts(named, dev=dev, test=test, languages=direction, seed=seed)
    inputs = _hash(
        {
            "model": loaded.fingerprint,
            "languages": str(direction),
            "parts": parts.hashes(),
            "budget": budget,
            "seed": seed,
        }
        | ({} if precision == "float32" else {"precision": precision})
        | ({} if max_loss == MAX_LOSS else {"max_loss": max_loss})
        | ({} if terms is None else {"glossary": terms.fingerprint})
    )
    request = DomainRequest(
        corpora=tuple(map(str, named)),
        model=ModelIdentity(name=_name_for_later(model), fingerprint=loaded.fingerprint),
        languages=direction,
        budget=budget,
        seed=seed,
        inputs=inputs,
    )
    if (folder / MANIFEST).exists():
        _check_same(folder, inputs)
    else:
        with warnings.catch_warnings(), writing(folder, DomainError):
            warnings.simplefilter("ignore", LacunaWarning)  # the notes of the domain say it
            decisions = Decisions(
                loaded,
                parts,
                folder / UNFINISHED,
                name=folder.resolve().name,
                budget=budget,
                seed=seed,
                max_loss=max_loss,
                glossary=terms,
                progress=progress,
            )
            _run(decisions, parts, folder, request)
    shutil.rmtree(folder / UNFINISHED, ignore_errors=True)
    manifest = read_domain_manifest(folder)
    if manifest.model.name != request.model.name or precision != "float32":
        return open_domain(folder, device=device)  # made with a copy of the model, which must still be there
    return Domain(folder, manifest, read_system_record(folder, manifest), loaded)


@dataclass(frozen=True, slots=True)
class DomainRequest:
    """What the user asked for.

    :param inputs: Hash of everything that decides the result.
    """

    corpora: tuple[str, ...]
    model: ModelIdentity
    languages: Languages | None
    budget: float | None
    seed: int
    inputs: str


def _run(decisions: Decisions, parts: CorpusParts, folder: Path, request: DomainRequest) -> None:
    """Run the steps that have no results yet, and write the domain."""
    whole = decisions.build()
    memory = decisions.prune(whole)
    combiner = decisions.fit(memory)
    calibration = decisions.calibrate(memory)
    texts = decisions.translate(memory, combiner)
    scores = decisions.score(texts)
    fitted = combiner.load().manifest
    manifest = DomainManifest(
        inputs=request.inputs,
        corpora=request.corpora,
        model=request.model,
        languages=None if request.languages is None else str(request.languages),
        seed=request.seed,
        budget=request.budget,
        pairs=DomainPairs(
            read=parts.cleaning.read,
            kept=parts.cleaning.kept,
            shared=parts.shared,
            **{part: len(sentences) for part, sentences in decisions.sentences.items()},
        ),
        memory=DomainMemory(
            entries=memory.store.entries,
            known=round(float(whole.store.known.mean()), 4),
            pruned=dropped_share(whole, memory),
        ),
        combiner=DomainCombiner(
            kind=fitted.combiner,
            settings=fitted.settings,
            candidates=tuple(DomainCandidate(**asdict(candidate)) for candidate in combiner.candidates),
            searched=combiner.searched,
        ),
        calibrated=calibration is not None,
        scores=tuple(map(DomainScore.of, scores.values())),
        notes=tuple(decisions.notes),
        seconds=decisions.seconds,
    )
    examples = DomainExamples()
    if texts:
        without, adapted = texts.values()
        examples = find_examples(decisions.sentences["test"].pairs, without, adapted)
    folders = {MEMORY: memory.path, COMBINER: combiner.path} | ({CALIBRATION: calibration} if calibration else {})
    ready = folder / UNFINISHED / "ready"
    shutil.rmtree(ready, ignore_errors=True)  # from a run that was killed
    for name, source in folders.items():
        # Links take no space, and the results of the steps stay complete until the domain is.
        shutil.copytree(source, ready / name, copy_function=_link)
    for name, part in ((_DEV, "dev"), (_TEST, "test")):
        if decisions.sentences[part].pairs:
            write_tsv(ready / name, decisions.sentences[part].pairs)
    if decisions.glossary is not None:
        write_glossary(ready / GLOSSARY, decisions.glossary)
    write_text(ready / PAGE, render_domain(folder.resolve().name, manifest, examples))
    write_system_record(ready, system_record(manifest))
    write_domain_manifest(ready, manifest)
    _publish(ready, folder)
    decisions.end()


def _publish(ready: Path, folder: Path) -> None:
    """Move everything into the folder of the domain, the manifest last."""
    for name in _NAMES:
        if (ready / name).exists():
            _remove(folder / name)  # from a run that was killed
            (ready / name).rename(folder / name)
            sync(folder)


def _link(source: str, target: str) -> None:
    """Make a hard link, or a copy where the file system has none."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _check_folder(folder: Path) -> None:
    """Refuse a folder with anything else than a domain, finished or not."""
    names = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    if MANIFEST in names or (UNFINISHED in names and names <= {UNFINISHED, *_NAMES}):
        return
    check_unused(folder, DomainError)
    check_creatable(folder / UNFINISHED, DomainError)


def _check_same(folder: Path, inputs: str) -> None:
    """Refuse a finished domain that was made from something else: what was added to its memory would be lost."""
    if read_domain_manifest(folder).inputs != inputs:
        raise DomainError(
            f"{folder}: already a domain, made from another corpus, dev, test, model, languages, budget, loss, "
            "glossary or seed; name a new folder, or remove this one"
        )


def _name_for_later(model: str | Path | None) -> str | None:
    """Return a name of the model that is valid in any current folder."""
    if model is None:
        return None
    folder = Path(model).expanduser()
    return str(folder.resolve()) if folder.is_dir() else str(model)


def _hash(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
