"""Declared tests as pytest items, each with the line in its file that declares it."""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ethos_hil.base.plain_text import escape, one_line
from ethos_hil.base.verdict import Failure, FailureKind, Standing, Verdict
from ethos_hil.suites.declare.case import Case, Defect, Operator
from ethos_hil.suites.declare.model_case import Model
from ethos_hil.suites.plugin.options import Options

if TYPE_CHECKING:
    from ethos_hil.base.record import Record
    from ethos_hil.harness.virtual.board import BoardPool
    from ethos_hil.results.store import RunFolder
    from ethos_hil.suites.trial.declared import Declared
    from ethos_hil.suites.trial.run_trial import Trial


def line_of(file: Path, *names: str) -> int | None:
    """Return the line of the call whose first argument is the last of `names`, inside the call with the name before it.

    If a name is not written out, as in a loop, it is the line of the last name that is; None if none is.

    Args:
        file: the test file.
        names: the operator's name and the case's.
    """
    line = None
    calls = _calls(file, file.stat().st_mtime_ns)
    for name in names:
        calls = tuple(call for call in calls if call[0] == name)
        if not calls:
            break
        line = calls[0][1]
        calls = tuple(inner for call in calls for inner in call[2])
    return line


_Call = tuple[str, int, tuple["_Call", ...]]
"""A call whose first argument is a text: that text, its line, and the calls of this kind inside it."""


@functools.lru_cache(maxsize=100)
def _calls(file: Path, _modified: int) -> tuple[_Call, ...]:
    return tuple(_inside(ast.parse(file.read_bytes())))


def _inside(node: ast.AST) -> Iterator[_Call]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Call(args=[ast.Constant(value=str(name)), *_]):
                yield name, child.lineno, tuple(_inside(child))
            case _:
                yield from _inside(child)


_SECONDS = 900
"""Time limit of a test, seconds. Lowering a large model takes a minute of one core, and importing torch for the
first test of a process takes minutes on a busy machine. An interrupted import breaks all later tests of the
process. A run on a target has its own limit (`Question.timeout`).
"""
_TRACEBACKS = ("long", "native")
"""The values of --tb that request the traceback even of an error whose message is enough."""
_RUN_FOLDER = pytest.StashKey["RunFolder"]()
_POOL = pytest.StashKey["BoardPool"]()


class DeclaredItem(pytest.Item):
    """A declaration in one profile.

    Attributes:
        declaration: the operator or model.
        case: the operator's case; None for a model.
        record: the test's record; None before it ran, and where the harness failed before there was one.
        standing: the record's verdict, or "failed".
        unknown: what its model depends on and cannot be known, as sentences.
    """

    def __init__(self, *, declaration: Operator | Model, case: Case | None, profile: str, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.declaration, self.case = declaration, case
        self.profile_name = profile
        self.record: Record | None = None
        self._kept: Path | None = None
        self._defect: Defect | None = None
        self.unknown: tuple[str, ...] = ()
        self.add_marker(self.options.profiles[profile].marker)
        self.add_marker(pytest.mark.timeout(_SECONDS))
        if isinstance(declaration, Model) and profile in declaration.slow:
            self.add_marker("slow")

    @property
    def options(self) -> Options:
        """The options of the session."""
        return Options.of(self.config)

    @property
    def labels(self) -> tuple[str, str]:
        """The operator or model, and the case ("" for a model)."""
        return self.declaration.name, "" if self.case is None else self.case.name

    def declared_test(self) -> Declared:
        """Return the declared test."""
        from ethos_hil.suites.trial.declared import DeclaredCase, DeclaredModel

        profile = self.options.profiles[self.profile_name]
        if isinstance(self.declaration, Model):
            return DeclaredModel(profile, self.path, self.declaration)
        assert self.case is not None
        return DeclaredCase(profile, self.path, self.declaration, self.case)

    @property
    def standing(self) -> Standing:
        return Standing.FAILED if self.record is None else Standing(self.record.verdict)

    @property
    def line(self) -> int | None:
        """The line of its declaration."""
        return line_of(self.path, *filter(None, self.labels))

    @property
    def source(self) -> str:
        """The place of its declaration, for example "suites/ops/test_elementwise.py:13"."""
        root = self.config.rootpath
        file = self.path.relative_to(root) if self.path.is_relative_to(root) else self.path
        return f"{file}:{self.line or 1}"

    @property
    def reason(self) -> str:
        """What a skipped test lacks."""
        failure = self.record.failure if self.record is not None else None
        if failure is None:
            return "compiled only, nothing was run (--compile-only)"
        return one_line(": ".join(filter(None, (failure.message, failure.hint))))

    def runtest(self) -> None:
        """Lower, run, compare."""
        options = self.options
        if not options.compile_only:
            from ethos_hil.lowering.native.worker import REFERENCE_MODEL

            REFERENCE_MODEL.start()  # it is imported while this process imports the rest
        from ethos_hil.base.judge import ending_of
        from ethos_hil.base.record import SuiteTest
        from ethos_hil.suites.trial.run_trial import Trial

        about = SuiteTest(self.nodeid, *self.labels, self.profile_name, self.source)
        trial = Trial(self.declared_test(), options.question, pool=self._pool(), about=about)
        try:
            record = trial.run()
        except (Exception, pytest.fail.Exception) as error:  # pytest-timeout ends a test with the latter
            kind = FailureKind.TIMEOUT if isinstance(error, pytest.fail.Exception) else FailureKind.INTERNAL
            text = str(error).partition("\n")[0]
            self._keep(trial, trial.stop(Failure(kind, f"{type(error).__name__}: {text}")), error)
            raise
        self._defect, self.unknown = trial.defect, trial.unknown
        self._keep(trial, record, trial.error)
        ending = ending_of(record)
        if self._defect is not None:
            raise pytest.xfail.Exception(f"{self._defect.what} ({self._defect.link})")
        if ending.red:
            raise Unverified(record.verdict) from trial.error
        if not ending.green:
            raise pytest.skip.Exception(self.reason)

    def _keep(self, trial: Trial, record: Record, error: BaseException | None) -> None:
        """Keep the record in the run folder, and all files of a failure where they are requested. Raises ToolError."""
        from ethos_hil.base.errors import ToolError

        self.record = record
        options = self.options
        try:
            if record.verdict == Verdict.FAILED and self._defect is None and options.artifacts is not None:
                from ethos_hil.suites.trial import failure_dump

                self._kept = failure_dump.place(trial.test, options.artifacts, self.config.rootpath)
                failure_dump.keep(self._kept, trial, record, error)
            run_folder(self.config).append(self.record, part=options.part, attempt=options.attempt)
        except OSError as problem:
            self.record = None
            raise ToolError(
                f"{problem.filename or 'the record'} cannot be written: {problem.strerror or problem}",
                hint="free some space, or choose other folders: --runs, --artifacts",
                kind=FailureKind.RECORDS,
            ) from problem

    def _pool(self) -> BoardPool | None:
        """Return the pool of this process's virtual boards; they are stopped with the session."""
        if self.options.question.target != "virtual" or self.options.profiles[self.profile_name].npu is None:
            return None
        pool = self.config.stash.get(_POOL, None)
        if pool is None:
            from ethos_hil.harness.virtual.board import BoardPool

            pool = self.config.stash[_POOL] = BoardPool()
            self.config.add_cleanup(pool.close)
        return pool

    def properties(self) -> list[tuple[str, object]]:
        """Return the properties for reports and JUnit's XML."""
        operator, case = self.labels
        pairs: list[tuple[str, object]] = [("verdict", str(self.standing)), ("operator", operator), ("case", case)]
        pairs.append(("profile", self.profile_name))
        record = self.record
        if record is not None:
            pairs += [("npu", record.npu), ("target", record.target.name)]
            pairs += [("kind", str(record.kind))] if record.kind is not None else []
            noise = [(row.sqnr_db, row.cosine, row.index) for row in record.accuracy if row.sqnr_db is not None]
            if noise:
                decibels, cosine, index = min(noise, key=lambda figures: figures[0])
                pairs += [("sqnr_db", decibels), ("cosine", cosine), ("worst_index", str(list(index)))]
        pairs += [("defect", self._defect.link)] if self._defect is not None else []
        pairs += [("lowered_anew", ", ".join(self.unknown))] if self.unknown else []
        return [*pairs, ("source", self.source)]

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return a few lines about what is wrong; a traceback only for a defect of the harness, or on request."""
        from ethos_hil.base.errors import EthosHilError

        error = excinfo.value
        explained = isinstance(error, EthosHilError | Unverified)
        if not explained or (error.__cause__ is not None and self.config.getoption("tbstyle") in _TRACEBACKS):
            excinfo.traceback = excinfo.traceback.cut(path=__file__)  # without pytest's own frames
            return super().repr_failure(excinfo, style)
        if isinstance(error, EthosHilError):
            lines = [f"{error.kind}: {error.message}", *filter(None, [error.hint])]
        else:
            lines = self._explanation()
        return escape("\n".join(lines), keep="\t\n")

    def _explanation(self) -> list[str]:
        record = self.record
        assert record is not None
        lines = []
        if record.failure is not None:
            lines.append(f"{record.failure.kind}: {record.failure.message}")
            lines += [f"hint: {record.failure.hint}"] if record.failure.hint else []
        if record.divergence is not None:
            lines.append(f"starts at: {record.divergence.message}")
        lines.append(f"declared at: {self.source}")
        return lines + ([f"all of it is in: {self._kept}"] if self._kept is not None else [])

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the declaring file and the line, counted from 0."""
        line = self.line
        return self.path, None if line is None else line - 1, self.name


class Unverified(Exception):
    """There is a record, and it is not verified."""


def run_folder(config: pytest.Config) -> RunFolder:
    """Return the session's run folder, which all of its processes share.

    Raises:
        OSError: it cannot be made.
    """
    folder = config.stash.get(_RUN_FOLDER, None)
    if folder is None:
        from ethos_hil.results.store import RunFolder

        options = Options.of(config)
        command = getattr(config, "workerinput", {}).get("mainargv", sys.argv)
        folder = RunFolder(options.runs, name=options.run, command=command, shard=str(options.shard or ""))
        config.stash[_RUN_FOLDER] = folder
    return folder


def items_of(collector: pytest.Module, declared: object) -> list[DeclaredItem] | None:
    """Return the tests of a declaration, or None if the object is not one."""
    cases: tuple[tuple[str, Case | None, tuple[str, ...]], ...]
    if isinstance(declared, Operator):
        cases = tuple((f"{declared.name}_{case.name}", case, declared.profiles_of(case)) for case in declared.cases)
    elif isinstance(declared, Model):
        cases = ((declared.name, None, declared.profiles),)
    else:
        return None
    return [
        DeclaredItem.from_parent(
            collector, name=f"test_{test}_{profile}", declaration=declared, case=case, profile=profile
        )
        for test, case, profiles in cases
        for profile in profiles
    ]
