"""Attack every verb that writes, and every file that it writes, and count what does not hold.

Three attacks, each on copies of small artifacts that are made at the start:

- *kills*: a process that runs a verb gets SIGKILL at a random moment.
- *faults*: the n-th call of open, fsync, rename, mkdir or unlink in the folder of the artifact fails with ENOSPC or
  EIO, or no file can grow beyond a number of bytes.
- *damage*: a bit of a file is flipped, or the file is cut, emptied or removed, and the artifact is used.

After a kill or a fault, the artifact must be as before or as after the verb, `verify` must pass, and the same command
must succeed. A verb that has returned must have done its work, one that was reported as failed must not have committed,
and every error must be a line for the user. Damaged files must give an error for the user or the right answer, and
`verify` must find them. Every case runs in a process of its own.

    python benchmarks/attack_artifacts.py [--seconds 300] [--seed 1] [--attacks kills,faults,damage] [--verbs add,fit]

It prints the number of cases and the findings as JSON, and exits with 1 if there is a finding.
"""

from __future__ import annotations

import argparse
import builtins
import errno
import functools
import hashlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
import torch

from lacuna.combiners import load_combiner
from lacuna.datastore import build_store, inspect_store, open_store, verify_store
from lacuna.domain import adapt, open_domain
from lacuna.errors import LacunaError, LacunaWarning
from lacuna.fitting import DevSet, calibrate, fit_combiner, make_fitter
from lacuna.index import build_index, open_index
from lacuna.margin import measure_margin, read_margins
from lacuna.memory import Selection, check_receipt, compact_memory, open_memory, read_log
from lacuna.memory.folder_edits import add_pairs, forget_sentences, replace_sentence
from lacuna.models import Model, load_model
from lacuna.pruning import Plac, prune_store
from lacuna.records import Languages
from lacuna.translator.calibration import load_calibration
from made_up import make_pairs, write_pairs
from unit.memory.rule_model import RuleModel
from unit.models.tiny_models import make_marian

RULE = RuleModel()
LONGEST = 120  # seconds until a case counts as hanging
TEMPLATES = "templates"


# --- What is attacked


@dataclass(frozen=True)
class Verb:
    """A verb that writes.

    :param needs: Names of templates that it gets copies of.
    :param run: Runs it in the folder of the copies.
    :param read: Reads the state that it changes.
    :param edits: Whether it commits an edit, which must never be reported as failed after the commit.
    :param also: Another state that is allowed, as well as those before and after.
    """

    needs: tuple[str, ...]
    run: Callable[[Path], object]
    read: Callable[[Path], object]
    edits: bool = False
    also: object = "nothing else"


def _tiny(home: Path) -> Model:
    return load_model(home / "model", languages=Languages("de", "en"), device="cpu")


def _dev() -> DevSet:
    return DevSet(make_pairs(40, seed=1))


def _read_store(folder: Path) -> object:
    if not (folder / "manifest.json").exists() and not (folder / "memory.json").exists():
        return None
    store = open_store(folder)
    store.load()
    keys = store.keys.gather(np.arange(store.entries))
    return [list(store.sentences.present()), store.values.tolist(), store.sentence.tolist(), keys.tobytes()]


def _read_memory(folder: Path) -> object:
    """Read a memory; one that is empty is as good as none."""
    state = _read_store(folder)
    if not state or not state[1]:  # type: ignore[index]
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error", LacunaWarning)
        commits = [(entry.commit, entry.action, entry.added, entry.forgotten) for entry in read_log(folder)]
    return [state, commits, len(open_store(folder).segments or ())]


def _read_forgotten(home: Path) -> object:
    """Read a memory, and check that its receipt is there if and only if it should be."""
    receipt = home / "receipt.json"
    state = _read_memory(home / "memory")
    drafts = [path for path in home.glob("receipt.json.commit-3.tmp") if len(read_log(home / "memory")) == 3]
    for path in [path for path in [receipt] if path.exists()] or drafts:
        assert check_receipt(home / "memory", path).listed == 0, "the receipt does not agree with the memory"
        return [state, "receipt"]
    return [state, "no receipt"]


def _read_index(folder: Path) -> object:
    store = open_store(folder)
    found = open_index(store).search(store.keys.gather(np.arange(5)).astype(np.float32), 3)
    return [inspect_store(folder).as_json()["index"], found.ids.tolist()]


def _read_margins(folder: Path) -> object:
    if not (folder / "margin" / "manifest.json").exists():
        return None
    margins = read_margins(open_store(folder))
    return [margins.values.tolist(), margins.manifest.max_margin]


def _read_combiner(folder: Path) -> object:
    return load_combiner(folder).manifest.model_dump() if folder.exists() else None


def _read_calibration(folder: Path) -> object:
    return load_calibration(folder) if folder.exists() else None


def _read_domain(folder: Path) -> object:
    return _use_domain(folder) if (folder / "domain.json").exists() else None


def _use_domain(folder: Path) -> object:
    domain = open_domain(folder, device="cpu")
    texts = [one.text for one in domain.translate([pair.source for pair in make_pairs(2, seed=3)])]
    return [texts, domain.manifest.model_dump(exclude={"seconds"}), domain.system.calibration]


def _adapt(home: Path) -> object:
    parts = {name: home / "texts" / f"{name}.tsv" for name in ("dev", "test")}
    return adapt(home / "texts" / "corpus.tsv", home / "domain", model=home / "model", device="cpu", **parts)


def _add(home: Path, name: str = "memory") -> object:
    return add_pairs(home / name, make_pairs(12, seed=5), RULE, cleaning=None)


VERBS: dict[str, Verb] = {
    "build": Verb(
        (),
        lambda home: build_store(RULE, make_pairs(120), home / "new", cleaning=None, shard_rows=200),
        lambda home: _read_store(home / "new"),
    ),
    "index": Verb(
        ("store",),
        lambda home: build_index(open_store(home / "store"), "IVF4,Flat"),
        lambda home: _read_index(home / "store"),
    ),
    "margin": Verb(
        ("store",),
        lambda home: measure_margin(open_store(home / "store"), 64),
        lambda home: _read_margins(home / "store"),
        also=None,  # margins that are measured anew are removed first
    ),
    "prune": Verb(
        ("store",),
        lambda home: prune_store(open_store(home / "store"), Plac(min_margin=2), home / "pruned", ratio=0.05),
        lambda home: _read_store(home / "pruned"),
    ),
    "add to a new folder": Verb(
        (), lambda home: _add(home, "new"), lambda home: _read_memory(home / "new"), edits=True
    ),
    "add to a store": Verb(
        ("store",), lambda home: _add(home, "store"), lambda home: _read_memory(home / "store"), edits=True
    ),
    "add": Verb(("memory",), _add, lambda home: _read_memory(home / "memory"), edits=True),
    "forget": Verb(
        ("memory",),
        lambda home: forget_sentences(home / "memory", Selection(sentences=(3, 61)), receipt=home / "receipt.json"),
        _read_forgotten,
        edits=True,
    ),
    "replace": Verb(
        ("memory",),
        lambda home: replace_sentence(home / "memory", 5, "We see nine windows.", RULE),
        lambda home: _read_memory(home / "memory"),
        edits=True,
    ),
    "compact": Verb(
        ("memory",),
        lambda home: compact_memory(home / "memory"),
        lambda home: _read_memory(home / "memory"),
        edits=True,
    ),
    "fit": Verb(
        ("model", "tiny"),
        lambda home: fit_combiner(
            make_fitter("adaptive", k=4), _tiny(home), [open_memory(home / "tiny")], _dev(), home / "combiner"
        ),
        lambda home: _read_combiner(home / "combiner"),
    ),
    "calibrate": Verb(
        ("model", "tiny"),
        lambda home: calibrate(_tiny(home), [open_memory(home / "tiny")], _dev(), home / "calibration"),
        lambda home: _read_calibration(home / "calibration"),
    ),
    "adapt": Verb(("model", "texts"), _adapt, lambda home: _read_domain(home / "domain")),
}


def make_templates(home: Path, with_model: bool) -> None:
    """Make the artifacts that cases copy.

    :param with_model: Also those that a model is needed for; it is tiny and has random weights.
    """
    build_index(build_store(RULE, make_pairs(60), home / "store", cleaning=None, shard_rows=300), "exact")
    measure_margin(open_store(home / "store"), 32)
    shutil.copytree(home / "store", home / "memory")
    add_pairs(home / "memory", make_pairs(4, seed=4), RULE, cleaning=None)
    forget_sentences(home / "memory", Selection(sentences=(1,)), receipt=home / "receipts" / "receipt.json")
    measure_margin(open_store(home / "memory"), 32)
    if not with_model:
        return
    make_marian(home / "model")
    build_index(build_store(_tiny(home), make_pairs(40), home / "tiny"), "IVF4,Flat")
    (home / "texts").mkdir()
    for name, count, seed in (("corpus", 40, 0), ("dev", 40, 1), ("test", 4, 2)):
        write_pairs(home / "texts" / f"{name}.tsv", make_pairs(count, seed=seed))


# --- Processes


@dataclass
class Outcome:
    """How a child process ended: what its function returned, an error for the user, a traceback, or a signal."""

    kind: str  # "ok", "error", "traceback", "killed", "hung"
    value: Any = None


def in_child(function: Callable[[], object], *, kill_after: float | None = None) -> Outcome:
    """Run a function in a forked process."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        with os.fdopen(write, "w", encoding="utf-8") as pipe:
            json.dump(asdict(_outcome(function)), pipe)
        os._exit(0)
    os.close(write)
    ended = _wait(child, kill_after)
    with os.fdopen(read, encoding="utf-8") as pipe, suppress(ValueError):  # a killed process has written nothing
        return Outcome(**json.load(pipe))
    return Outcome(ended)


def _outcome(function: Callable[[], object]) -> Outcome:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    # What libraries print belongs to no finding.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        return Outcome("ok", function())
    except LacunaError as error:
        return Outcome("error", str(error))
    except BaseException as error:
        return Outcome("traceback", f"{type(error).__name__}: {error}\n{traceback.format_exc()}")


def _wait(child: int, kill_after: float | None) -> str:
    until = time.monotonic() + (LONGEST if kill_after is None else kill_after)
    while not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if time.monotonic() >= until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "hung" if kill_after is None else "killed"
        time.sleep(0.001)
    os.waitpid(child, 0)
    return "killed"


def _stores(case: Path) -> set[Path]:
    """Return the folders of all stores that are not unfinished."""
    found = {path.parent for path in [*case.rglob("manifest.json"), *case.rglob("memory.json")]}
    passing = {"unfinished", "segments", "index", "margin", "combiner", "calibration", "gate"}
    return {
        folder
        for folder in found
        if not any(part.startswith(".") or part in passing for part in folder.relative_to(case).parts)
    }


def digest(value: object) -> str:
    """Return a hash of a state."""
    return hashlib.sha256(repr(value).encode("utf-8", "surrogatepass")).hexdigest()[:16]


# --- Faults


CALLS = {
    "open": ("os.open", "builtins.open"),
    "fsync": ("os.fsync",),
    "rename": ("os.rename", "os.replace"),
    "mkdir": ("os.mkdir",),
    "unlink": ("os.unlink", "os.rmdir"),
}


@dataclass
class Fault:
    """The n-th call of one kind below a folder fails; with 0, calls are only counted."""

    folder: Path
    kind: str
    number: int = 0
    code: int = errno.ENOSPC
    calls: int = 0

    @contextmanager
    def injected(self) -> Iterator[None]:
        """Replace the functions of this kind."""
        if self.kind == "write":  # for writes that Python does not see as well
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.number, resource.RLIM_INFINITY))
            yield
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            return
        modules = {"os": os, "builtins": builtins}
        before = []
        for name in CALLS[self.kind]:
            module, _, attribute = name.partition(".")
            real = getattr(modules[module], attribute)
            before.append((modules[module], attribute, real))
            setattr(modules[module], attribute, self._wrapped(real))
        if self.kind == "open":
            before.append((io, "open", io.open))
            io.open = builtins.open  # type: ignore[assignment]
        yield
        for module, attribute, real in before:
            setattr(module, attribute, real)

    def _wrapped(self, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def wrapped(*arguments: Any, **settings: Any) -> Any:  # noqa: ANN401 - those of any function
            if self._concerns(arguments[0]):
                self.calls += 1
                if self.calls == self.number:
                    raise OSError(self.code, os.strerror(self.code), str(arguments[0]))
            return real(*arguments, **settings)

        return wrapped

    def _concerns(self, place: object) -> bool:
        if isinstance(place, int):
            place = Path(f"/proc/self/fd/{place}").readlink()
        return isinstance(place, str | os.PathLike) and str(place).startswith(str(self.folder))


# --- The attacks


@dataclass
class Attack:
    """Runs cases until the time is up, and counts them.

    :param cases: Number of cases by attack and verb, or file.
    :param findings: What did not hold, by kind.
    """

    home: Path
    rng: random.Random
    cases: Counter[str] = field(default_factory=Counter)
    results: Counter[str] = field(default_factory=Counter)
    findings: list[tuple[str, str]] = field(default_factory=list)
    known: dict[str, tuple[str, str, float]] = field(default_factory=dict)

    def find(self, kind: str, case: str, details: object = "") -> None:
        """Note a finding."""
        self.findings.append((kind, f"{case}: {details}"))
        print(f"FINDING {kind}: {case}: {details}", file=sys.stderr, flush=True)

    def copy(self, verb: Verb) -> Path:
        """Return a new folder with copies of the templates of a verb, always of the same name."""
        case = self.home / "case"
        shutil.rmtree(case, ignore_errors=True)
        case.mkdir()
        for name in verb.needs:
            shutil.copytree(self.home / TEMPLATES / name, case / name)
        return case

    def states(self, name: str) -> tuple[str, str, float]:
        """Return the states before and after a verb, and how long it takes."""
        if name not in self.known:
            verb = VERBS[name]
            case = self.copy(verb)
            before = self.read(verb, case)
            started = time.monotonic()
            done = in_child(lambda: verb.run(case) and None)
            seconds = time.monotonic() - started
            assert done.kind == "ok", done.value
            after = self.read(verb, case)
            assert (before.kind, after.kind) == ("ok", "ok"), (before, after)
            assert before.value != after.value, name
            self.known[name] = before.value, after.value, seconds
        return self.known[name]

    def read(self, verb: Verb, case: Path) -> Outcome:
        """Read the state of a case in another process, and verify its stores."""

        def work() -> str:
            state = verb.read(case)
            for store in _stores(case):
                problems = verify_store(store).problems
                if problems:
                    raise AssertionError(f"not sound: {problems}")
            return digest(state)

        return in_child(work)

    def check(self, name: str, case: Path, label: str, done: Outcome) -> None:
        """Check a case after its verb was killed, or has failed or returned."""
        verb, (before, after, _) = VERBS[name], self.states(name)
        self.results[done.kind] += 1
        if done.kind in {"traceback", "hung"}:
            self.find(done.kind, label, done.value)
        elif done.kind == "error" and "\n" in done.value:
            self.find("more than one line", label, done.value)
        state = self.read(verb, case)
        if state.kind != "ok":
            return self.find(f"state cannot be read ({state.kind})", label, state.value)
        if state.value not in {before, after, digest(verb.also)}:
            return self.find("lost or half done", label)
        if done.kind == "ok" and state.value != after:
            self.find("reported but not done", label)
        if verb.edits and done.kind == "error" and state.value == after:
            self.find("done but reported as failed", label, done.value)
        if state.value == after:
            return None
        again = in_child(lambda: verb.run(case) and None)
        if again.kind != "ok":
            return self.find(f"the same command fails ({again.kind})", label, again.value)
        state = self.read(verb, case)
        if state.value != after:
            self.find("another result after repeating", label, state)
        return None

    def kill(self, name: str) -> None:
        """Kill a verb at a random moment."""
        verb, seconds = VERBS[name], self.states(name)[2]
        case = self.copy(verb)
        moment = self.rng.random() * seconds * 1.1
        done = in_child(lambda: verb.run(case) and None, kill_after=moment)
        self.cases[f"kill {name}"] += 1
        self.check(name, case, f"kill {name} after {moment:.3f} s", done)

    def faults(self, name: str) -> Iterator[Callable[[], None]]:
        """Yield all faults of a verb, in random order."""
        verb = VERBS[name]
        self.states(name)
        possible: list[tuple[str, int]] = []
        for kind in CALLS:
            case = self.copy(verb)

            def count(kind: str = kind, case: Path = case) -> int:
                fault = Fault(case, kind)
                with fault.injected():
                    verb.run(case)
                return fault.calls

            possible += [(kind, number) for number in range(1, in_child(count).value + 1)]
        sizes = {path.stat().st_size for path in case.rglob("*") if path.is_file()}
        possible += [("write", size - 1) for size in sizes if size]
        self.rng.shuffle(possible)
        for kind, number in possible:
            code = self.rng.choice([errno.ENOSPC, errno.EIO])
            yield functools.partial(self.fail, name, kind, number, code)

    def fail(self, name: str, kind: str, number: int, code: int) -> None:
        """Let one call of a verb fail."""
        verb = VERBS[name]
        case = self.copy(verb)

        def work() -> None:
            fault = Fault(case, kind, number, code)
            with fault.injected():
                verb.run(case)

        self.cases[f"fault {name}"] += 1
        what = f"no file above {number} bytes" if kind == "write" else f"{errno.errorcode[code]} at {kind} {number}"
        self.check(name, case, f"{name}: {what}", in_child(work))

    def damages(self, with_model: bool) -> Iterator[Callable[[], None]]:
        """Yield damage to random files of all artifacts, without end."""
        artifacts = self.home / "artifacts"
        shutil.copytree(self.home / TEMPLATES, artifacts)
        for name in ("fit", "calibrate", "adapt") if with_model else ():
            made = in_child(lambda name=name: VERBS[name].run(artifacts) and None)
            assert made.kind == "ok", made.value
        used = [name for name in USES if (artifacts / name).exists()]
        whole = {name: in_child(functools.partial(USES[name], artifacts)) for name in used}
        for name, outcome in whole.items():
            assert outcome.kind == "ok", (name, outcome.value)
        files = [(name, path) for name in used for path in sorted((artifacts / name).rglob("*")) if path.is_file()]
        files = [(name, path) for name, path in files if not path.name.startswith(".lock")]
        while True:
            self.rng.shuffle(files)
            for name, path in files:
                yield functools.partial(self.damage, artifacts, name, path, whole[name].value)

    def damage(self, artifacts: Path, name: str, path: Path, right: str) -> None:
        """Damage a file, use its artifact, and verify it."""
        content = path.read_bytes()
        how, wrong = damaged(content, self.rng)
        place = path.relative_to(artifacts)
        if wrong == content:
            return
        label = f"{place} {how}"
        checks = VERIFIED.get(name)
        path.unlink() if wrong is None else path.write_bytes(wrong)
        try:
            used = in_child(functools.partial(USES[name], artifacts))
            verified = in_child(lambda: checks(artifacts)) if checks else Outcome("error")
        finally:
            path.write_bytes(content)
        self.cases[f"damage {name}"] += 1
        self.results[f"use: {used.kind}"] += 1
        self.results[f"verify: {verified.kind}"] += 1
        if used.kind not in {"ok", "error"}:
            self.find(f"use of a damaged file ({used.kind})", label, used.value)
        elif used.kind == "error" and "\n" in used.value:
            self.find("more than one line", label, used.value)
        elif used.kind == "ok" and used.value != right and not _is_unchecked(place):
            self.find("silently another answer", label)
        if verified.kind not in {"ok", "error"}:
            self.find(f"verify of a damaged file ({verified.kind})", label, verified.value)
        elif verified.kind == "ok" and not _is_unverified(place, how):
            self.find("not found by verify", label)


def damaged(content: bytes, rng: random.Random) -> tuple[str, bytes | None]:
    """Return what was done to the content of a file, and the result; ``None`` if it is removed."""
    how = rng.choice(
        ["flip", "flip", "flip", "flip in the first bytes", "cut", "emptied", "removed", "zeros", "longer"]
    )
    if not content or how == "removed":
        return "removed", None
    if how.startswith("flip"):
        place = rng.randrange(min(len(content), 128) if "first" in how else len(content))
        changed = bytearray(content)
        changed[place] ^= 1 << rng.randrange(8)
        return f"with a flipped bit in byte {place}", bytes(changed)
    if how == "cut":
        size = rng.randrange(len(content))
        return f"cut to {size} bytes", content[:size]
    if how == "zeros":
        first = rng.randrange(len(content))
        last = min(len(content), first + 1 + rng.randrange(64))
        return f"with zeros at {first} to {last}", content[:first] + bytes(last - first) + content[last:]
    return (how, b"") if how == "emptied" else (how, content + b"\0")


def _use_memory(folder: Path) -> str:
    """Read everything of a memory, and search in it."""
    store = open_store(folder)
    inspected, margins = inspect_store(folder).as_json(), read_margins(store)
    return digest(
        [_read_store(folder), _read_index(folder), margins.values.tolist(), inspected["margin_histogram"], store.mean]
    )


def _sound(folder: Path) -> None:
    report = verify_store(folder)
    if report.problems:
        raise LacunaError(report.problems[0])


# What uses each artifact.
USES: dict[str, Callable[[Path], str]] = {
    "store": lambda home: _use_memory(home / "store"),
    "memory": lambda home: _use_memory(home / "memory"),
    "receipts": lambda home: digest(check_receipt(home / "memory", home / "receipts" / "receipt.json")),
    "combiner": lambda home: digest(_weights(home / "combiner")),
    "calibration": lambda home: digest(_read_calibration(home / "calibration")),
    "domain": lambda home: digest(_use_domain(home / "domain")),
    "model": lambda home: digest(_use_domain(home / "domain")),
}
VERIFIED: dict[str, Callable[[Path], None]] = {
    "store": lambda home: _sound(home / "store"),
    "memory": lambda home: _sound(home / "memory"),
}


def _weights(folder: Path) -> object:
    saved = load_combiner(folder)
    weights = saved.combiner.network.state_dict()  # type: ignore[attr-defined]
    return [saved.manifest.model_dump(), {name: weight.tolist() for name, weight in weights.items()}]


def _is_unchecked(place: Path) -> bool:
    """Tell whether a file is not compared with a hash when it is used, only by verify.

    Keys are too large for that. A damaged log is told by a warning. The other files of a domain are for people.
    """
    return place.name in {"keys.npy", "key_sum.npy", "log.jsonl", "report.html", "dev.tsv", "test.tsv"}


def _is_unverified(place: Path, how: str) -> bool:
    """Tell whether damage leaves what is no damage by itself.

    The log may end with the start of a line, and a store need not have an index or margins.
    """
    part = place.name == "manifest.json" and place.parent.name in {"index", "margin"}
    return (place.name == "log.jsonl" and how == "longer") or (part and how == "removed")


def run(attack: Attack, kinds: list[str], verbs: list[str], seconds: float, most: int | None) -> None:
    """Run the cases of all attacks in turn, as long as there is time."""
    templates = attack.home / TEMPLATES
    with_model = any("model" in VERBS[name].needs for name in verbs)
    made = in_child(lambda: make_templates(templates, with_model))
    assert made.kind == "ok", made.value
    queues: list[Iterator[Callable[[], None]]] = []
    for kind in kinds:
        if kind == "kills":
            queues += [iter(functools.partial(functools.partial, attack.kill, name), None) for name in verbs]
        elif kind == "faults":
            queues += [attack.faults(name) for name in verbs]
        else:
            queues += [attack.damages(with_model)] * max(1, len(verbs) // 2)
    until, done = time.monotonic() + seconds, 0
    while queues and (most is None or done < most):
        for queue in list(queues):
            case = next(queue, None)
            if case is None:
                queues = [each for each in queues if each is not queue]
                continue
            case()
            done += 1
            if time.monotonic() > until or (most is not None and done >= most):
                return


def main() -> None:
    """Print the number of cases and the findings as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--cases", type=int, help="at most this many cases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--attacks", default="kills,faults,damage")
    parser.add_argument("--verbs", default=",".join(VERBS))
    given = parser.parse_args()
    os.environ["LACUNA_CACHE"] = str(Path(tempfile.gettempdir()) / "attack-cache")
    with tempfile.TemporaryDirectory() as folder:
        attack = Attack(Path(folder).resolve(), random.Random(given.seed))
        run(attack, given.attacks.split(","), given.verbs.split(","), given.seconds, given.cases)
    report = {
        "cases": sum(attack.cases.values()),
        "findings": dict(Counter(kind for kind, _ in attack.findings)),
        "by case": dict(sorted(attack.cases.items())),
        "outcomes": dict(sorted(attack.results.items())),
    }
    print(json.dumps(report, indent=2))
    sys.exit(1 if attack.findings else 0)


if __name__ == "__main__":
    main()
