"""The points of a grid: every case on every NPU, in every memory mode, with every system; what records say of them.

A case says what is computed, and how it is quantised. It is data only: torch is imported when it is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ethos_hil.base.dataclasses import dataclass, field, replace
from ethos_hil.base.errors import EthosHilError, UsageError
from ethos_hil.base.judge import Evidence, Findings
from ethos_hil.base.npu.ethos_u import FAMILIES, EthosU
from ethos_hil.base.options import Scheme
from ethos_hil.base.question import Question
from ethos_hil.base.record import BenchInfo, Record
from ethos_hil.base.verdict import Failure, FailureKind
from ethos_hil.harness.targets.registry import name_in_records
from ethos_hil.harness.verdict.artifact_info import failed_findings
from ethos_hil.lowering.vela.ini import SHIPPED, VelaIni
from ethos_hil.lowering.vela.memory_mode import MemoryMode
from ethos_hil.lowering.vela.options import VelaSetup
from ethos_hil.results.latency import asked_clock

SHORT, LONG = "short", "long"
"""Tags: a short case is booted on its target and verified; a long one is compiled and timed, on a virtual target."""

PointKey = tuple[str, str, str, str, str]


@dataclass(frozen=True)
class BenchCase:
    """One module, or a user's model.

    Attributes:
        name: unique in its grid, "conv3x3_56x56x64".
        group: what it is a case of, "conv3x3".
        steps: what is computed, one after the other; empty for a model.
        inputs: the input tensors of the first step.
        scheme: bits of activations and weights.
        tags: `SHORT` or `LONG`, and the user's own.
        model: a MODEL as on the command line; "" where there are steps.
        source: where it is declared, "grid.toml:12".
    """

    name: str
    group: str
    steps: tuple[BenchStep, ...]
    inputs: tuple[BenchInput, ...]
    scheme: Scheme = "a8w8"
    tags: tuple[str, ...] = (LONG,)
    model: str = ""
    source: str = ""

    @property
    def booted(self) -> bool:
        """Whether it is booted and verified on a virtual target too."""
        return SHORT in self.tags


@dataclass(frozen=True)
class BenchStep:
    """A layer of torch.nn, or a function of torch, by name.

    Attributes:
        layer: "Conv2d"; "" for a function.
        call: "nn.functional.gelu"; "" for a layer.
        args, options: its arguments, by position (of a layer) and by name.
    """

    layer: str = ""
    call: str = ""
    args: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return it as it is written in Python: "Conv2d(64, 64, 3, padding=1)"."""
        arguments = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.options.items())]
        return f"{self.layer or self.call}({', '.join(arguments)})"


@dataclass(frozen=True)
class BenchInput:
    """An input tensor with random values from the case's own seed, evenly distributed from `low` to `high`.

    Attributes:
        shape: logical shape, [N, C, H, W] for images.
        dtype: "float32", "int8", "int32", "int64" or "bool".
        channels_last: whether its memory is in the order [N, H, W, C].
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    low: float = -1.0
    high: float = 1.0
    channels_last: bool = False

    def __str__(self) -> str:
        """Return its shape, "1x64x56x56"."""
        return "x".join(map(str, self.shape))


@dataclass(frozen=True)
class BenchGrid:
    """Cases, with the NPUs and memories that they are compiled for.

    Attributes:
        name: "default", or the stem of the user's file.
        cases: in the order of the file.
        npus: names; all eleven by default.
        memory_modes: Vela's names; empty for one of each kind that an NPU has.
        system_configs: Vela's names; empty for the one that ExecuTorch chooses for the NPU.
    """

    name: str
    cases: tuple[BenchCase, ...]
    npus: tuple[str, ...] = ()
    memory_modes: tuple[str, ...] = ()
    system_configs: tuple[str, ...] = ()


@dataclass(frozen=True)
class BenchPoint:
    """A case at one place of a grid.

    Attributes:
        case: what is computed.
        npu: name of the NPU.
        memory_mode, system_config: Vela's names.
        target: what `--target` calls the target.
    """

    case: BenchCase
    npu: str
    memory_mode: str
    system_config: str
    target: str

    @property
    def key(self) -> PointKey:
        """What tells it from the other points of its grid, and its record from theirs."""
        return self.case.name, self.npu, self.memory_mode, self.system_config, name_in_records(self.target)


def key_of(record: Record) -> PointKey:
    """Return the key of the point that a record is of; its case is "" where it is of none."""
    case = record.bench.case if record.bench is not None else ""
    return case, record.npu, record.memory_mode, record.system_config, record.target.name


ALL = "all"
"""In place of the names of memory modes: every one that an NPU can have."""


@dataclass(frozen=True)
class PointSettings:
    """What holds for all points of a run.

    Attributes:
        grid: the grid's name.
        vela_ini: a configuration file in place of Arm/vela.ini.
        boot: whether points on a virtual target are booted and verified; None for those of short cases.
        repeat: executions of a booted point; None for one on a virtual target, else three.
        timeout: seconds of a booted run on the target.
        clock: the clock to make times with, as the user states it; None for that of the system configuration.
        subject: what lowers in place of this environment (`--with`).
    """

    grid: str = ""
    vela_ini: Path | None = None
    boot: bool | None = None
    repeat: int | None = None
    timeout: float = 120.0
    clock: str | None = None
    subject: tuple[str, ...] = ()

    def check(self) -> None:
        """Check what is said of executions. Raises UsageError."""
        Question("", repeat=self.repeat, timeout=self.timeout).check()
        asked_clock(self.clock)

    def question(self, point: BenchPoint, **changes: Any) -> Question:
        """Return the question of a point; `changes` are further fields of it."""
        return Question(
            point.case.model or point.case.name,
            scheme=point.case.scheme,
            npu=point.npu,
            memory_mode=point.memory_mode,
            system_config=point.system_config,
            vela_ini=self.vela_ini,
            target=point.target,
            timeout=self.timeout,
            clock=self.clock,
            subject=self.subject,
            profile=True,
            **{"repeat": self.repeat, **changes},
        )

    def setup(self, point: BenchPoint) -> VelaSetup:
        """Return what Vela is asked for a point. Raises UsageError where that cannot be, which is its refusal."""
        return VelaSetup.of(self.question(point))

    def boots(self, case: BenchCase, *, virtual: bool) -> bool:
        """Return whether the points of a case on a target are booted."""
        if not virtual:
            return True
        return case.booted if self.boot is None else self.boot


def part_of(prefix: str, point: BenchPoint) -> str:
    """Return which part of a nightly's plan a point belongs to; "" outside a nightly, where there is no prefix."""
    place = f"{point.npu} {point.target} {point.memory_mode} {point.system_config}"
    return f"{prefix}: {place}" if prefix else ""


def points_of(grid: BenchGrid, targets: Sequence[str], settings: PointSettings) -> tuple[BenchPoint, ...]:
    """Return the points, case by case, those with one TOSA program together.

    A mode or system that was not asked for is there only where the NPU can have it. Of what was asked for, an NPU that
    cannot have it has a point, which is refused later; a system of Arm's is asked for the NPUs of its family.

    Args:
        grid: the grid.
        targets: by name.
        settings: of the run.

    Raises:
        UsageError: there is nothing to do, an NPU or file is unknown, or nothing of what was asked for can be.
    """
    npus = tuple(dict.fromkeys(EthosU.parse(name).name for name in grid.npus or EthosU.names()))
    grid = replace(grid, npus=npus)
    if not grid.cases or not targets:
        raise UsageError(f"the grid {grid.name} has no cases", hint="docs/bench-grids.md has examples")
    _check_names(targets)
    _check_systems(grid, settings)
    points = tuple(point for case in grid.cases for point in _of_case(case, grid, targets))
    _check_possible(points, settings)
    return points


def _of_case(case: BenchCase, grid: BenchGrid, targets: Sequence[str]) -> Iterator[BenchPoint]:
    # Those that share TOSA programs come one after another.
    for name in sorted(grid.npus, key=lambda name: EthosU.parse(name).family.tosa, reverse=True):
        npu = EthosU.parse(name)
        modes = _modes(npu, grid.memory_modes)
        for target in targets:
            for system in _systems(npu, grid.system_configs):
                for mode in modes:
                    yield BenchPoint(case, name, mode, system, target)


def _modes(npu: EthosU, asked: Sequence[str]) -> tuple[str, ...]:
    if not asked:
        return tuple(mode.name for mode in MemoryMode.one_of_each_kind(npu))
    if ALL in asked:
        return tuple(name for name in MemoryMode.VALID if MemoryMode(name).usable_on(npu))
    return tuple(asked)


def _systems(npu: EthosU, asked: Sequence[str]) -> Sequence[str]:
    """Return the systems for an NPU: of those that are asked for without the ones of Arm's for another family."""
    if not asked:
        return (npu.family.system.name,)
    return [name for name in asked if _may_have(npu, name)] or asked[:1]


def _may_have(npu: EthosU, system: str) -> bool:
    family = next((candidate for candidate in FAMILIES if system.startswith(candidate.system_prefix)), npu.family)
    return family == npu.family


def _check_names(targets: Sequence[str]) -> None:
    """Check that records will tell the targets from each other. Raises UsageError."""
    first: dict[str, str] = {}
    for target in targets:
        name = name_in_records(target)
        if name in first:
            raise UsageError(
                f"the targets {first[name]} and {target} are both called {name} in records",
                hint="leave out one, or give the file of one another name",
            )
        first[name] = target


def _check_systems(grid: BenchGrid, settings: PointSettings) -> None:
    """Check names before anything is compiled. Raises UsageError."""
    ini = VelaIni.shipped() if settings.vela_ini is None else VelaIni.read(settings.vela_ini)
    for name in grid.system_configs:
        able = [npu for npu in map(EthosU.parse, grid.npus) if ini.name != SHIPPED or _may_have(npu, name)]
        if not able:
            npus = ", ".join(grid.npus)
            raise UsageError(f"--system-config {name} is for none of {npus}", hint="ask for an NPU of its family too")
        ini.system(name, able[0])


def _check_possible(points: Sequence[BenchPoint], settings: PointSettings) -> None:
    """Check that Vela can be asked for some point. Raises the first refusal where it cannot be for any."""
    refused: dict[tuple[str, str, str], UsageError | None] = {}
    for point in points:
        key = point.npu, point.memory_mode, point.system_config
        if key not in refused:
            refused[key] = refusal_of(point, settings)
    errors = [error for error in refused.values() if error is not None]
    if len(errors) == len(refused):
        raise errors[0]


def refusal_of(point: BenchPoint, settings: PointSettings) -> UsageError | None:
    """Return why Vela cannot be asked for a point, or None."""
    return refusal(lambda: settings.setup(point))


def refusal(check: Callable[[], object]) -> UsageError | None:
    """Return why a check refuses, or None."""
    try:
        check()
    except UsageError as error:
        return error
    return None


def facts_of(point: BenchPoint, settings: PointSettings) -> dict[str, Any]:
    """Return the fields of `RunFacts` that say which point of a grid they are of."""
    case = point.case
    return {
        "model": case.model or case.name,
        "npu": point.npu,
        "memory_mode": point.memory_mode,
        "system_config": point.system_config,
        "bench": BenchInfo(settings.grid, case.name, case.group, case.tags, case.source),
    }


def refuse(point: BenchPoint, settings: PointSettings, error: EthosHilError, *, impossible: bool = False) -> Findings:
    """Return what is known of a point that ended in an error.

    Args:
        point: the point.
        settings: of the run.
        error: why.
        impossible: whether it cannot be for any case: that NPU has no such memory mode or system, or the target no such
            NPU.
    """
    findings = failed_findings(settings.question(point), error)
    if impossible:
        missing = Failure(FailureKind.CAPABILITY, error.message, error.hint)
        findings = replace(findings, evidence=Evidence(missing=missing))
    return findings.with_facts(**facts_of(point, settings))
