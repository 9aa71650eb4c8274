"""pytest plugin: after the room's tests are collected, each runs once to see which lines it reaches, then every mutant.

Every test and every mutant has a process of its own, forked from one in which the tests are collected and nothing has
run: what one leaves in memory no other one sees. A mutant whose line runs while modules are imported gets a new pytest.
"""

from __future__ import annotations

import json
import marshal
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from shutil import rmtree
from types import CodeType
from typing import Generic, TypeVar

import pytest

from ethos_hil.base.dataclasses import asdict, dataclass
from ethos_hil.suites.lab.measure.mutants import hook
from ethos_hil.suites.lab.measure.mutants.changes import CodeChange

JOB = "ETHOS_HIL_MUTANTS_OF_CODE"
"""Environment variable: the file with the job."""
PRELOAD = "ETHOS_HIL_MUTANTS_PRELOAD"
"""Environment variable: modules that are imported before the forks, for else each would import them; one a line."""
HEAVY = (
    "numpy",
    "scipy.stats",
    "pandas",
    "torch",
    "executorch.exir",
    "executorch.backends.arm.tosa",
    "ethosu.vela.vela",
)
"""What is worth it for our own tests."""
OPTIONS = ("-q", "--assert=plain", "-n", "0", "-p", "no:cacheprovider")
"""pytest's. With assertions of its own it compiles the product, which is a plugin's distribution, in its own way."""
KILLED, SURVIVED, NOT_REACHED = "killed", "survived", "not reached"
_CANNOT_SWAP = 3
_LEAST_SECONDS = 20.0
Subject = TypeVar("Subject")


@dataclass(frozen=True)
class MutationJob:
    """What a session does.

    Attributes:
        root: the checkout.
        folder: for what the session keeps while it runs, and its result.
        files: the room's sources.
        mutants: what to try.
        workers: how many processes at once.
        slowest: CPU seconds above which a test is left out.
        budget: CPU seconds of tests for a mutant.
        own_cache: whether each process lowers for itself; else what the mutant would lower comes from the cache.
    """

    root: str
    folder: str
    files: Sequence[str]
    mutants: Sequence[CodeChange]
    workers: int
    slowest: float
    budget: float
    own_cache: bool

    def save(self) -> Path:
        """Write it to its folder. Return the file."""
        file = Path(self.folder) / "job.json"
        file.write_text(json.dumps(asdict(self)))
        return file

    @classmethod
    def load(cls, file: Path) -> MutationJob:
        """Read what `save` wrote."""
        fields = json.loads(file.read_text())
        return cls(**{**fields, "mutants": [CodeChange(**mutant) for mutant in fields["mutants"]]})


@dataclass(frozen=True)
class MutantFate:
    """What became of a mutant.

    Attributes:
        mutant: the change.
        fate: KILLED, SURVIVED or NOT_REACHED.
        by: the test that failed, or how else it ended.
        tests: how many were to run.
        seconds: of wall time.
    """

    mutant: CodeChange
    fate: str
    by: str = ""
    tests: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Reach:
    """A test that passes: the CPU seconds it takes, and the lines it reaches, as (real path, line)."""

    test: str
    seconds: float
    lines: frozenset[tuple[str, int]]


@dataclass
class _Child(Generic[Subject]):
    subject: Subject
    process: int
    scratch: Path
    started: float
    seconds: float


@dataclass(frozen=True)
class _Ended(Generic[Subject]):
    subject: Subject
    scratch: Path
    status: int  # negative: the signal that ended it; None of a child that took too long is its SIGKILL
    late: bool
    wall: float
    cpu: float


def forked(
    subjects: Iterable[Subject], body: Callable[[Subject, Path], None], limit: Callable[[Subject], float], workers: int
) -> Iterator[_Ended[Subject]]:
    """Call `body` for each in a forked process with a scratch folder. Yield how they end; the folder goes then."""
    waiting = iter(subjects)
    children: list[_Child[Subject]] = []
    try:
        while True:
            while len(children) < workers and (subject := next(waiting, None)) is not None:
                scratch = Path(tempfile.mkdtemp(prefix="eh-"))
                process = os.fork() or _be(body, subject, scratch)
                children.append(_Child(subject, process, scratch, time.monotonic(), limit(subject)))
            if not children:
                return
            for child in list(children):
                wall = time.monotonic() - child.started
                late = wall > child.seconds
                if late:
                    _end(child.process)
                process, status, usage = os.wait4(child.process, 0 if late else os.WNOHANG)
                if process:
                    children.remove(child)
                    _end(child.process)  # what it left running
                    cpu = usage.ru_utime + usage.ru_stime
                    code = os.waitstatus_to_exitcode(status)
                    yield _Ended(child.subject, child.scratch, code, late, wall, cpu)
                    rmtree(child.scratch, ignore_errors=True)
            time.sleep(0.005)
    finally:
        for child in children:
            _end(child.process)
            rmtree(child.scratch, ignore_errors=True)


def _be(body: Callable[[Subject, Path], None], subject: Subject, scratch: Path) -> int:
    """Be the child."""
    status = 1
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        os.environ.update(TMPDIR=str(scratch), PYTEST_DEBUG_TEMPROOT=str(scratch))
        tempfile.tempdir = None
        body(subject, scratch)
        status = 0
    except SystemExit as ended:
        status = int(ended.code or 0)
    finally:
        os._exit(status)


def _end(process: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)


class Laboratory:
    """Takes the place of the loop that runs tests."""

    def __init__(self, job: MutationJob) -> None:
        self._job = job
        self._folder = Path(job.folder)
        self._sources = {str(Path(job.root, file).resolve()): file for file in job.files}
        self._failed = ""
        self._skipped = False
        self._items: Mapping[str, pytest.Item] = {}
        loads = f"exec(compile(open({hook.__file__!r}).read(), 'hook', 'exec'), {{'__name__': '__main__'}})\n"
        (self._folder / "sitecustomize.py").write_text(loads)
        os.environ["PYTHONPATH"] = os.pathsep.join([str(self._folder), os.environ.get("PYTHONPATH", "")])
        os.environ[hook.FILES] = "\n".join(self._sources)
        os.environ[hook.REACHED] = str(self._folder / "imported")
        hook.watch()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the first test that fails."""
        self._skipped |= report.skipped
        if report.failed and not self._failed:
            self._failed = report.nodeid

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure the tests, then try the mutants."""
        sys.settrace(None)
        imported = self._lines(Path(os.environ.pop(hook.REACHED)))
        if session.testsfailed:
            raise session.Interrupted(f"{session.testsfailed} errors during collection")
        for name in os.environ.get(PRELOAD, "").splitlines():
            with suppress(ImportError):
                import_module(name)
        self._items = {item.nodeid: item for item in session.items}
        started = time.monotonic()
        reaches = sorted(self._measured(), key=lambda reach: reach.seconds)
        self._say(f"{len(reaches)} of {len(self._items)} tests take part ({time.monotonic() - started:.0f} s)")
        fates = list(self._tried(reaches, imported))
        result = {"tests": len(reaches), "fates": [asdict(fate) for fate in fates]}
        (self._folder / "result.json").write_text(json.dumps(result))
        return True

    def _say(self, words: str) -> None:
        os.write(2, f"{words}\n".encode())

    def _lines(self, file: Path) -> frozenset[tuple[str, int]]:
        places = (line.rpartition(":") for line in (file.read_text().splitlines() if file.exists() else ()))
        return frozenset((name, int(line)) for name, _, line in places if line.isdigit())  # the last one may be cut

    def _measured(self) -> Iterator[Reach]:
        """Run each test alone. Yield those that pass and are fast; of some a room has only what is imported."""

        def body(test: str, scratch: Path) -> None:
            os.environ[hook.REACHED] = str(scratch / "reached")
            hook.watch()
            self._run([test], scratch)
            raise SystemExit(1 if self._failed or self._skipped else 0)

        for number, ended in enumerate(forked(self._items, body, lambda _: 6 * _LEAST_SECONDS, self._job.workers), 1):
            lines = self._lines(ended.scratch / "reached")
            if ended.status == 0 and ended.cpu <= self._job.slowest:
                yield Reach(ended.subject, ended.cpu, lines)
            elif ended.status or ended.late:
                self._say(f"left out, does not pass here: {ended.subject}")
            if number % 100 == 0:
                self._say(f"{number} of {len(self._items)} tests measured")

    def _run(self, tests: Sequence[str], scratch: Path) -> None:
        if self._job.own_cache:
            os.environ["ETHOS_HIL_CACHE"] = str(scratch / "cache")
        items = [self._items[test] for test in tests]
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                return

    def _tried(self, reaches: Sequence[Reach], imported: frozenset[tuple[str, int]]) -> Iterator[MutantFate]:
        warm: list[tuple[CodeChange, list[Reach]]] = []
        cold: list[tuple[CodeChange, list[Reach]]] = []
        for mutant in self._job.mutants:
            path = str(Path(self._job.root, mutant.file).resolve())
            lines = {(path, line) for line in range(mutant.line, mutant.last + 1)}
            near = [reach for reach in reaches if reach.lines & lines]
            if not mutant.in_function or lines & imported:
                of_file = [reach for reach in reaches if any(name == path for name, _ in reach.lines)]
                cold.append((mutant, self._affordable(of_file or list(reaches))))
            elif near:
                warm.append((mutant, self._affordable(near)))
            else:
                yield MutantFate(mutant, NOT_REACHED)
        for ended in forked(warm, self._warm, self._limit, self._job.workers):
            if ended.status == _CANNOT_SWAP:
                cold.append(ended.subject)
            else:
                yield self._fate(ended)
        for ended in forked(cold, self._cold, self._limit, self._job.workers):
            yield self._fate(ended)

    def _affordable(self, reaches: Sequence[Reach]) -> list[Reach]:
        """Return as many, the fastest first, as the budget has the time for; one at least."""
        chosen, spent = list(reaches[:1]), sum(reach.seconds for reach in reaches[:1])
        for reach in reaches[1:]:
            spent += reach.seconds
            if spent > self._job.budget:
                break
            chosen.append(reach)
        return chosen

    def _limit(self, trial: tuple[CodeChange, list[Reach]]) -> float:
        return _LEAST_SECONDS + 3 * sum(reach.seconds for reach in trial[1])

    def _fate(self, ended: _Ended[tuple[CodeChange, list[Reach]]]) -> MutantFate:
        mutant, reaches = ended.subject
        mark = ended.scratch / "failed"
        by = mark.read_text() if mark.exists() else ""
        how = by or ("no end" if ended.late else f"the process ended with {ended.status}" if ended.status else "")
        fate = MutantFate(mutant, KILLED if how else SURVIVED, how, len(reaches), round(ended.wall, 2))
        self._say(f"{fate.fate}: {mutant}{f' ({how})' if how else ''}")
        return fate

    def _mutate(self, mutant: CodeChange, scratch: Path) -> tuple[bytes, CodeType | None]:
        """Let Python processes from now on import the mutant. Return its source, and the code if it is loaded here."""
        path = Path(self._job.root, mutant.file).resolve()
        files = (getattr(module, "__file__", None) or "" for module in list(sys.modules.values()))
        loaded = next((file for file in files if Path(file).name == path.name and Path(file).resolve() == path), "")
        source = path.read_bytes()
        code = mutant.compiled(source, loaded or str(path))
        (scratch / "code").write_bytes(marshal.dumps(code))
        os.environ[hook.MUTATED] = f"{path}\n{scratch / 'code'}"
        return source, (code if loaded else None)

    def _warm(self, trial: tuple[CodeChange, list[Reach]], scratch: Path) -> None:
        mutant, reaches = trial
        source, code = self._mutate(mutant, scratch)
        hook.import_mutated()
        if code is not None:
            try:
                swapped = hook.swap(compile(source, code.co_filename, "exec", dont_inherit=True), code)
            except ValueError:  # the function would have other free variables
                swapped = 0
            if not swapped:
                raise SystemExit(_CANNOT_SWAP)
        self._run([reach.test for reach in reaches], scratch)
        if self._failed:
            (scratch / "failed").write_text(self._failed)

    def _cold(self, trial: tuple[CodeChange, list[Reach]], scratch: Path) -> None:
        mutant, reaches = trial
        self._mutate(mutant, scratch)
        if self._job.own_cache:
            os.environ["ETHOS_HIL_CACHE"] = str(scratch / "cache")
        os.environ.pop(JOB, None)
        tests = [reach.test for reach in reaches]
        os.execv(sys.executable, [sys.executable, "-m", "pytest", "-x", *OPTIONS, *tests])


# While this module is imported, before any conftest and plugin: modules that they import are watched too.
_LABORATORY = Laboratory(MutationJob.load(Path(os.environ.pop(JOB)))) if JOB in os.environ else None


def pytest_configure(config: pytest.Config) -> None:
    """Take over, if this process has a job."""
    if _LABORATORY:
        config.pluginmanager.register(_LABORATORY, "ethos-hil-mutants-of-code")
