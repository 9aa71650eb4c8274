"""What a nightly runs: its parts, in order."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from ethos_hil.base.dataclasses import asdict, dataclass, replace
from ethos_hil.base.errors import UsageError
from ethos_hil.base.field_option import parse_part
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.family import Family
from ethos_hil.base.options import DEFAULTS
from ethos_hil.base.question import Question
from ethos_hil.base.suffix import CPU_SUFFIX, HOST_SUFFIXES, NPU_SUFFIXES, SUFFIXES, parse_suffix
from ethos_hil.harness.bench.bench import BenchPlan, PlannedPoint
from ethos_hil.harness.bench.points import BenchCase, BenchPoint, PointSettings, part_of
from ethos_hil.harness.campaign.planned import Planned, share_of
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.nightly.config import ModelEntry, NightlyConfig, SubjectEntry, SuiteEntry
from ethos_hil.harness.targets.registry import check_name, check_npu, find_plugin
from ethos_hil.lowering.vela.memory_mode import MemoryMode

if TYPE_CHECKING:
    from ethos_hil.harness.bench.order import BenchOrder

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
        subject: what lowers; nothing for this environment.
    """

    name: str
    entry: SuiteEntry
    target: str
    suffixes: tuple[str, ...] = ()
    npus: tuple[str, ...] = ()
    memory_mode: str = ""
    subject: tuple[str, ...] = ()

    @property
    def arguments(self) -> list[str]:
        """pytest's arguments that say what runs, but for the paths."""
        words = [f"--suffix={suffix}" for suffix in self.suffixes] + [f"--npu={npu}" for npu in self.npus]
        words += [f"--memory-mode={self.memory_mode}"] if self.memory_mode else []
        words += [f"--with={text}" for text in self.subject]
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
    parts = (part for number, entry in enumerate(config.suites, 1) for part in _sessions(number, entry))
    suites = tuple(
        replace(part, name=_with(part.name, subject), subject=subject.uses)
        for part in parts
        for subject in config.subjects
    )
    runs = (part for number, entry in enumerate(config.models, 1) for part in _runs(number, entry))
    models = tuple(
        replace(part, name=_with(part.name, subject), question=part.question.but(subject=subject.uses))
        for part in runs
        for subject in config.subjects
    )
    for part in models:
        check_npu(find_plugin(part.target), EthosU.parse(part.npu))
    places = [part for number, entry in enumerate(config.sweeps, 1) for part in _places(number, entry)]
    sweeps = tuple(_lowered_by(subject, part) for subject in config.subjects for part in places)
    plan = NightlyPlan((), suites, models, config.audit_one_in, sweeps)
    for name, count in Counter(part.name for part in plan.parts).items():
        if count > 1:  # each would overwrite what the other one says of itself
            raise UsageError(
                f"{name} is in the plan {count} times", hint="name each NPU, memory mode, system and target once"
            )
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


def _lowered_by(subject: SubjectEntry, part: SweepPart) -> SweepPart:
    prefix, settings = _with(part.prefix, subject), replace(part.settings, subject=subject.uses)
    return replace(part, name=f"{prefix}{part.name.removeprefix(part.prefix)}", prefix=prefix, settings=settings)


def _with(name: str, subject: SubjectEntry) -> str:
    return f"{name} with {subject.name}" if subject.name else name


def npu_for(target: str, plan: NightlyPlan) -> str:
    """Return an NPU that a target of a plan has to have."""
    return _npu_of(target, (*plan.models, *plan.sweeps))


def _npu_of(target: str, parts: Sequence[ModelPart | SweepPart]) -> str:
    npus = [part.npu for part in parts if part.target == target]
    able = find_plugin(target).npus
    return next((npu for npu in (*npus, *map(str, EthosU.usual())) if npu in able), able[0])


_ONCE = (*HOST_SUFFIXES, CPU_SUFFIX)


def _sessions(number: int, entry: SuiteEntry) -> Iterator[SuitePart]:
    """Yield the sessions of a suite: one for each target, memory mode, and NPU beyond the first of a family."""
    # The profiles that no NPU computes run once, whatever the targets and memory modes are.
    asked = tuple(parse_suffix(text, f"suite {number}: suffixes") for text in entry.suffixes) or SUFFIXES
    modes = tuple(MemoryMode.parse(text).name for text in entry.memory_modes) or ("",)
    able = {EthosU.parse(npu).family.suffix for npu in entry.npus} or {*NPU_SUFFIXES}
    unable = [suffix for suffix in asked if entry.suffixes and suffix not in (*able, *_ONCE)]
    if unable:
        raise UsageError(
            f"suite {number}: no NPU of {', '.join(entry.npus)} is one of the profile {unable[0]}",
            hint="add one to `npus`, or take the profile out of `suffixes`",
        )
    first = True
    for target, mode, npus in product(entry.targets, modes, _groups(entry.npus)):
        check_name(target)
        families = [EthosU.parse(npu).family.suffix for npu in npus] or NPU_SUFFIXES
        suffixes = [suffix for suffix in asked if suffix in families or (first and suffix in _ONCE)]
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
    share = entry.min_npu_share
    base = Question(
        entry.model,
        inputs=Path(entry.inputs) if entry.inputs else None,
        profile=entry.profile,
        min_npu_share=parse_part(share, f"model {number}: min_npu_share") if isinstance(share, str) else share,
    )
    if not base.is_program:  # of a program PyTorch's answers are not known
        base = base.but(min_sqnr=entry.min_sqnr)
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
