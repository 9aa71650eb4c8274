"""What a nightly runs: its parts, in order.

What a nightly's TOML file says. `nightly.schema.json` beside this file describes it; docs/nightly.md explains it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ethos_hil.base.checked_toml import read_checked
from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.family import Family
from ethos_hil.base.question import DEFAULT_NPU, DEFAULT_TARGET, DEFAULTS, Question
from ethos_hil.base.suffix import HOST_SUFFIXES, NPU_SUFFIXES, SUFFIXES, parse_suffix
from ethos_hil.harness.bench.order import BenchPlan, PlannedPoint
from ethos_hil.harness.bench.points import BenchCase, BenchPoint, PointSettings, part_of
from ethos_hil.harness.boards.family import locate
from ethos_hil.harness.campaign.engine import Planned, share_of
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.targets.registry import check_name, check_npu, find_plugin
from ethos_hil.lowering.vela.options import MemoryMode
from ethos_hil.results.report.reproduce import NO_LINKS, Links
from ethos_hil.results.store import DEFAULT_ROOT

if TYPE_CHECKING:
    from ethos_hil.harness.bench.order import BenchOrder


SCHEMA = "nightly.schema.json"
SEE = "docs/nightly.md has an example"


@dataclass(frozen=True)
class SuiteEntry:
    """A `[[suite]]`: tests of pytest. Empty: as pytest and the suites have it by default."""

    paths: tuple[str, ...]
    targets: tuple[str, ...]
    suffixes: tuple[str, ...] = ()
    expression: str = ""
    markers: str = ""
    one_in: int = 1
    npus: tuple[str, ...] = ()
    memory_modes: tuple[str, ...] = ()
    may_be_empty: bool = False


@dataclass(frozen=True)
class ModelEntry:
    """A `[[model]]`, with all places where it runs."""

    model: str
    targets: tuple[str, ...]
    npus: tuple[str, ...] = (DEFAULT_NPU,)
    memory_modes: tuple[str, ...] = ()
    profile: bool = False
    inputs: str = ""


@dataclass(frozen=True)
class ExportEntry:
    """An `[[export]]`: a format for a whole run, and its file."""

    to: str
    file: Path


@dataclass(frozen=True)
class NightlyConfig:
    """What a nightly's file says; paths are absolute, but for those in entries of suites, models and sweeps.

    Attributes:
        path: the file.
        suites, models, sweeps: what runs.
        jobs: processes.
        known_model: MODEL that is verified first on each target, or "".
        timeout: seconds of a model's run on a target.
        into: the folder of run folders.
        against: what the night is compared with, or "".
        policy: what the gate allows, or None for its default.
        history: the folder of the history, or None.
        report: the HTML file, or None.
        exports: other files.
        quarantine: the file of tests that may fail for a while, or None.
        audit_one_in: one of so many tests runs twice; 0 for none.
        links: the addresses of commits and of jobs of the CI.
    """

    path: Path
    suites: tuple[SuiteEntry, ...]
    models: tuple[ModelEntry, ...]
    jobs: int
    known_model: str
    timeout: float
    into: Path
    against: str
    policy: Path | None
    history: Path | None
    report: Path | None
    exports: tuple[ExportEntry, ...]
    quarantine: Path | None
    audit_one_in: int
    sweeps: tuple[BenchOrder, ...] = ()
    links: Links = NO_LINKS

    @property
    def folder(self) -> Path:
        """The folder that paths in it start from, and that its tests run in: that of the file."""
        return self.path.parent


def read_config(path: Path) -> NightlyConfig:
    """Read a nightly's file.

    Raises:
        UsageError: it cannot be used; the message names the place.
    """
    path = path.absolute()
    data = read_checked(path, resources.files(__package__).joinpath(SCHEMA), SEE).data
    run: Mapping[str, Any] = data.get("run", {})
    suites = tuple(SuiteEntry(**entry) for entry in _entries(data, "suite", path.parent))
    models = tuple(ModelEntry(**entry) for entry in _entries(data, "model", path.parent))
    timeout = run.get("timeout", 120.0)
    sweeps = tuple(_sweep(entry, path.parent, timeout) for entry in _entries(data, "sweep", path.parent))
    if not suites and not models and not sweeps:
        raise UsageError(
            f"{path} has nothing to run", hint="add a [[suite]], a [[model]] or a [[sweep]]; docs/nightly.md has them"
        )
    compare: Mapping[str, str] = data.get("compare", {})

    def file(table: str, key: str) -> Path | None:
        name = data.get(table, {}).get(key)
        return None if name is None else path.parent / name

    return NightlyConfig(
        path=path,
        suites=suites,
        models=models,
        jobs=run.get("jobs", os.cpu_count() or 1),
        known_model=run.get("known_model", ""),
        timeout=timeout,
        into=path.parent / run.get("into", DEFAULT_ROOT),
        against=compare.get("against", ""),
        policy=file("compare", "policy"),
        history=file("history", "folder"),
        report=file("report", "file"),
        exports=tuple(ExportEntry(entry["to"], path.parent / entry["file"]) for entry in data.get("export", ())),
        quarantine=file("quarantine", "file"),
        audit_one_in=data.get("audit", {}).get("one_in", 0),
        sweeps=sweeps,
        links=Links(**data.get("links", {})),
    )


def _sweep(table: Mapping[str, Any], folder: Path, timeout: float) -> BenchOrder:
    """Return a `[[sweep]]`: points of a benchmark. Empty: as the grid has it; without a grid, the default one."""
    from ethos_hil.harness.bench.order import BenchOrder
    from ethos_hil.harness.bench.points import PointSettings

    values = {name: value for name, value in table.items() if name not in ("grid", "boot")}
    grid = folder / table["grid"] if table.get("grid") else None
    return BenchOrder(**values, grid=grid, settings=PointSettings(boot=table.get("boot"), timeout=timeout))


def _entries(data: Mapping[str, Any], table: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the tables of a name, with their targets."""
    targets = data.get("run", {}).get("targets", (DEFAULT_TARGET,))
    for entry in data.get(table, ()):
        asked = entry.get("targets", targets)
        yield _tuples({**entry, "targets": tuple(locate(target, folder) for target in asked)})


def _tuples(table: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}


KNOWN = "known model: "
"""How the names of the parts begin that have to be verified first."""


@dataclass(frozen=True)
class SuitePart:
    """One session of pytest.

    Attributes:
        name: what records and the report call it.
        entry: what the file says.
        target: where NPU profiles run.
        suffixes: the profiles; empty for all.
        npus: NPUs in place of their families' usual ones.
        memory_mode: by Vela's name; "" for the NPU's default.
    """

    name: str
    entry: SuiteEntry
    target: str
    suffixes: tuple[str, ...] = ()
    npus: tuple[str, ...] = ()
    memory_mode: str = ""

    @property
    def arguments(self) -> list[str]:
        """pytest's arguments that say what runs, but for the paths."""
        words = [f"--suffix={suffix}" for suffix in self.suffixes] + [f"--npu={npu}" for npu in self.npus]
        words += [f"--memory-mode={self.memory_mode}"] if self.memory_mode else []
        return [*words, f"--target={self.target}"]

    @property
    def selection(self) -> list[str]:
        """pytest's arguments that choose among the tests of its paths."""
        words = [f"--one-in={self.entry.one_in}"] if self.entry.one_in > 1 else []
        words += ["-k", self.entry.expression] if self.entry.expression else []
        return words + (["-m", self.entry.markers] if self.entry.markers else [])


@dataclass(frozen=True)
class ModelPart:
    """One run of a model.

    Attributes:
        name: what records and the report call it.
        question: what it asks. The time limit is the night's.
        known: whether it is the one that has to be verified first.
    """

    name: str
    question: Question
    known: bool = False

    @property
    def npu(self) -> str:
        """The NPU."""
        return self.question.npu

    @property
    def target(self) -> str:
        """Where it runs."""
        return self.question.target

    def planned_of(self, shard: Shard | None, timeout: float = DEFAULTS["timeout"]) -> tuple[Planned, ...]:
        """Return what a shard has to run of it, within a time limit. Each shard runs a known model."""
        planned = Planned(self.question.but(timeout=timeout), self.question.label, self.name)
        return (planned,) if self.known else share_of((planned,), shard)


@dataclass(frozen=True)
class SweepPart:
    """The points of a sweep in one place.

    Attributes:
        name, target, npu, memory_mode: as in `ModelPart`; `system_config` likewise, by Vela's name.
        prefix: how the names of the sweep's parts begin.
        cases: what is measured.
        settings: of the benchmark.
    """

    name: str
    target: str
    npu: str
    memory_mode: str
    system_config: str
    prefix: str
    cases: tuple[BenchCase, ...]
    settings: PointSettings

    @property
    def points(self) -> tuple[BenchPoint, ...]:
        """Its points."""
        place = (self.npu, self.memory_mode, self.system_config, self.target)
        return tuple(BenchPoint(case, *place) for case in self.cases)

    def planned_of(self, shard: Shard | None, _: float = 0) -> tuple[PlannedPoint, ...]:
        """Return the points that a shard has to make."""
        return share_of(BenchPlan(self.points, self.settings, self.prefix).planned, shard)


Part = SuitePart | ModelPart | SweepPart


@dataclass(frozen=True)
class NightlyPlan:
    """All parts of a nightly.

    Attributes:
        known: for each target, the run of a model whose answer is known to be right there; empty where none is asked.
        suites, models, sweeps: what runs then.
        audit_one_in: as in `NightlyConfig`.
    """

    known: tuple[ModelPart, ...]
    suites: tuple[SuitePart, ...]
    models: tuple[ModelPart, ...]
    audit_one_in: int = 0
    sweeps: tuple[SweepPart, ...] = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """Every part, in the order in which they run."""
        return (*self.known, *self.suites, *self.models, *self.sweeps)

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets, in the order in which they come first."""
        parts: tuple[Part, ...] = (*self.suites, *self.models, *self.sweeps)
        return tuple(dict.fromkeys(part.target for part in parts))

    @property
    def digest(self) -> str:
        """What tells this plan from another."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True, default=str).encode()).hexdigest()[:16]


def plan_of(config: NightlyConfig) -> NightlyPlan:
    """Return the plan of a configuration.

    Raises:
        UsageError: there is no target, NPU, memory mode or profile of a name, or the target cannot have the NPU.
        ToolError: a target's plug-in cannot be used.
    """
    suites = tuple(part for number, entry in enumerate(config.suites, 1) for part in _sessions(number, entry))
    models = tuple(part for number, entry in enumerate(config.models, 1) for part in _runs(number, entry))
    for part in models:
        check_npu(find_plugin(part.target), EthosU.parse(part.npu))
    sweeps = tuple(part for number, entry in enumerate(config.sweeps, 1) for part in _places(number, entry))
    plan = NightlyPlan((), suites, models, config.audit_one_in, sweeps)
    _check_once(plan)
    if not config.known_model:
        return plan
    known = tuple(
        ModelPart(
            f"{KNOWN}{target}",
            Question(config.known_model, npu=_npu_of(target, (*models, *sweeps)), target=target),
            known=True,
        )
        for target in plan.targets
    )
    return NightlyPlan(known, suites, models, config.audit_one_in, sweeps)


def _check_once(plan: NightlyPlan) -> None:
    """Raise UsageError if two parts have one name: each would overwrite what the other one says of itself."""
    for name, count in Counter(part.name for part in plan.parts).items():
        if count > 1:
            raise UsageError(
                f"{name} is in the plan {count} times", hint="name each NPU, memory mode, system and target once"
            )


def npu_for(target: str, plan: NightlyPlan) -> str:
    """Return an NPU that a target of a plan has to have."""
    return _npu_of(target, (*plan.models, *plan.sweeps))


def _npu_of(target: str, parts: Sequence[ModelPart | SweepPart]) -> str:
    npus = [part.npu for part in parts if part.target == target]
    able = find_plugin(target).npus
    return next((npu for npu in (*npus, *map(str, EthosU.usual())) if npu in able), able[0])


def _sessions(number: int, entry: SuiteEntry) -> Iterator[SuitePart]:
    """Yield the sessions of a suite: one for each target, memory mode, and NPU beyond the first of a family."""
    # The profiles that no target computes run once, whatever the targets and memory modes are.
    asked = tuple(parse_suffix(text, f"suite {number}: suffixes") for text in entry.suffixes) or SUFFIXES
    modes = tuple(MemoryMode.parse(text).name for text in entry.memory_modes) or ("",)
    able = {EthosU.parse(npu).family.suffix for npu in entry.npus} or {*NPU_SUFFIXES}
    unable = [suffix for suffix in asked if entry.suffixes and suffix not in (*able, *HOST_SUFFIXES)]
    if unable:
        raise UsageError(
            f"suite {number}: no NPU of {', '.join(entry.npus)} is one of the profile {unable[0]}",
            hint="add one to `npus`, or take the profile out of `suffixes`",
        )
    first = True
    for target, mode, npus in product(entry.targets, modes, _groups(entry.npus)):
        check_name(target)
        families = [EthosU.parse(npu).family.suffix for npu in npus] or NPU_SUFFIXES
        suffixes = [suffix for suffix in asked if suffix in families or (first and suffix in HOST_SUFFIXES)]
        first = False
        if suffixes:
            place = " ".join(filter(None, (target, mode, *npus)))
            yield SuitePart(f"suite {number}: {place}", entry, target, tuple(suffixes), npus, mode)


def _groups(npus: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the NPUs in groups that have no two of one family: a session has one for each."""
    groups: list[dict[Family, str]] = []
    for npu in map(EthosU.parse, npus):
        free = next((group for group in groups if npu.family not in group), None)
        if free is None:
            groups.append(free := {})
        free[npu.family] = npu.name
    return [tuple(group.values()) for group in groups] or [()]


def _runs(number: int, entry: ModelEntry) -> Iterator[ModelPart]:
    modes = tuple(MemoryMode.parse(text).name for text in entry.memory_modes) or (None,)
    base = Question(entry.model, inputs=Path(entry.inputs) if entry.inputs else None, profile=entry.profile)
    for target, mode, npu in product(entry.targets, modes, entry.npus):
        check_name(target)
        question = base.but(npu=EthosU.parse(npu).name, target=target, memory_mode=mode)
        yield ModelPart(" ".join(filter(None, (f"model {number}:", question.npu, target, mode))), question)


def _places(number: int, order: BenchOrder) -> Iterator[SweepPart]:
    """Yield the parts of a sweep: one for each NPU, target, memory mode and system."""
    plan = order.plan(targets_there=False)
    prefix = f"sweep {number}"
    by_part: dict[str, list[BenchPoint]] = {}
    for point in plan.points:
        by_part.setdefault(part_of(prefix, point), []).append(point)
    for name, points in by_part.items():
        at, cases = points[0], tuple(point.case for point in points)
        yield SweepPart(name, at.target, at.npu, at.memory_mode, at.system_config, prefix, cases, plan.settings)
