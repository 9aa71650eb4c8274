"""What a user asks of a benchmark, the plan that it makes, and that plan as a source of the campaign engine: its
points, and the job that makes them.

Grids of benchmarks as TOML files. `grid.schema.json` beside this file describes them; docs/bench-grids.md explains
them.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ethos_hil.base import judge
from ethos_hil.base.checked_toml import CheckedToml, read_checked
from ethos_hil.base.errors import EthosHilError, UsageError
from ethos_hil.base.files import read_text
from ethos_hil.base.judge import OF_THIS_PLACE, is_refusal
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.plain_text import did_you_mean
from ethos_hil.base.question import DEFAULT_TARGET, OPTIONS, Scheme
from ethos_hil.base.record import Record
from ethos_hil.harness.bench.points import (
    ALL,
    LONG,
    SHORT,
    BenchCase,
    BenchGrid,
    BenchInput,
    BenchPoint,
    BenchStep,
    PointSettings,
    part_of,
    points_of,
    refuse,
)
from ethos_hil.harness.campaign.engine import (
    CampaignCrew,
    CrewAnswer,
    Planned,
    PlannedJob,
    digest_of_model,
    digest_of_plan,
)
from ethos_hil.harness.campaign.run_folder import BENCH, CampaignSubject, Facet
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.targets.registry import find_plugin
from ethos_hil.harness.verdict.tool_state import tool_state
from ethos_hil.lowering.program.program_file import PROGRAM_SUFFIXES, no_file
from ethos_hil.lowering.vela.ini import VelaIni
from ethos_hil.lowering.vela.options import MemoryMode

if TYPE_CHECKING:
    from ethos_hil.harness.virtual.board import BoardPool


SCHEMA = "grid.schema.json"
DEFAULT = "default_grid.toml"
SEE = "docs/bench-grids.md has examples"
_MOST = 1 << 26
"""Numbers in an input tensor."""
_FILES = (".py", ".pt2", ".pte", ".bpte")


def read_grid(path: Path, vela_ini: Path | None = None) -> BenchGrid:
    """Read a user's grid.

    Args:
        path: the file.
        vela_ini: a configuration file whose memory modes and systems it names, in place of Arm/vela.ini.

    Raises:
        UsageError: it cannot be used; the message names the file and the line.
    """
    return _grid(path, str(path), None if vela_ini is None else VelaIni.read(vela_ini))


def default_grid() -> BenchGrid:
    """Return the grid that comes with this package: about 100 cases of common shapes."""
    return _grid(Path(__file__).with_name(DEFAULT), DEFAULT)


def _grid(path: Path, shown: str, ini: VelaIni | None = None) -> BenchGrid:
    file = read_checked(path, resources.files(__package__).joinpath(SCHEMA), SEE, shown)
    entries: Sequence[Mapping[str, Any]] = file.data.get("case", ())
    if not entries:
        raise UsageError(f"{shown}:1: the grid has no cases", hint=f"add a [[case]]; {SEE}")
    cases = tuple(_Entry(file, number, entry, path.parent).case for number, entry in enumerate(entries))
    first: dict[str, str] = {}
    for case in cases:
        if case.name in first:
            raise UsageError(
                f"{case.source}: a second case is called {case.name!r}", hint=f"the first is at {first[case.name]}"
            )
        first[case.name] = case.source
    return BenchGrid(
        file.data.get("name", DEFAULT.split("_")[0] if shown == DEFAULT else path.stem),
        cases,
        _names_of(file, "npus", EthosU.parse) or EthosU.names(),
        _names_of(file, "memory_modes", _memory_mode if ini is None else str),  # one's own are not looked up
        _names_of(file, "system_configs", lambda name: _system(name, ini or VelaIni.shipped())),
    )


def _names_of(file: CheckedToml, key: str, parse: Callable[[str], object]) -> tuple[str, ...]:
    """Return the names that the file has for a key. Raises UsageError, with the line, where `parse` does."""
    try:
        return tuple(dict.fromkeys(str(parse(name)) for name in file.data.get(key, ())))
    except UsageError as error:
        raise UsageError(f"{file.line_of(key)}: {key}: {error.message}", hint=error.hint) from None


def _memory_mode(name: str) -> str:
    return name if name == ALL else MemoryMode.parse(name).name


def _system(name: str, ini: VelaIni) -> str:
    if name not in ini.systems:
        suggestion = did_you_mean(name, ini.systems)
        raise UsageError(f"{name!r} is not a system of {ini.name}", hint=f"{suggestion}valid: {', '.join(ini.systems)}")
    return name


@dataclass(frozen=True)
class _Entry:
    """A `[[case]]`, the one with that number in the file; `folder` is the file's."""

    file: CheckedToml
    number: int
    data: Mapping[str, Any]
    folder: Path

    @property
    def case(self) -> BenchCase:
        """What it declares. Raises UsageError."""
        name, model, tags = self.data["name"], self.data.get("model", ""), tuple(self.data.get("tags", ()))
        if model:
            for key in ("steps", "inputs"):
                if key in self.data:
                    raise self._wrong(key, f"has a model and {key}", "a model brings its own: leave out one of them")
        elif "steps" not in self.data:
            raise self._wrong("name", "has neither steps nor a model", SEE)
        elif "inputs" not in self.data:
            raise self._wrong("name", "has no inputs", "add inputs = [[1, 16, 8, 8]], with a shape for each")
        if {SHORT, LONG} <= set(tags):
            hint = f"{SHORT} cases are booted and verified, {LONG} ones compiled and timed: leave out one of the tags"
            raise self._wrong("tags", f"is tagged {SHORT} and {LONG}", hint)
        return BenchCase(
            name,
            self.data.get("group", "model" if model else name.split("_")[0]),
            tuple(map(self._step, self.data.get("steps", ()))),
            tuple(map(self._input, self.data.get("inputs", ()))),
            self.data.get("scheme", "a8w8"),
            tags if {SHORT, LONG} & set(tags) else (LONG, *tags),
            self._model(model),
            self.file.line_of("case", self.number, "name"),
        )

    def _step(self, data: Mapping[str, Any]) -> BenchStep:
        if ("layer" in data) == ("call" in data):
            both = "a layer and a call" if "layer" in data else "neither a layer nor a call"
            raise self._wrong("steps", f"has a step with {both}", 'write {layer = "ReLU"} or {call = "mul"}')
        if "call" in data and "args" in data:
            raise self._wrong("steps", f"has args for {data['call']}", "functions take options, arguments by name")
        return BenchStep(**_tuples(data))

    def _input(self, data: Any) -> BenchInput:
        tensor = BenchInput(tuple(data)) if isinstance(data, list) else BenchInput(**_tuples(data))
        if not tensor.low < tensor.high:
            what = f"has an input with values from {tensor.low:g} to {tensor.high:g}"
            raise self._wrong("inputs", what, "low, by default -1, has to be below high, by default 1")
        if math.prod(tensor.shape) > _MOST:
            raise self._wrong(
                "inputs", f"has an input of {math.prod(tensor.shape):,} numbers", f"give at most {_MOST:,}"
            )
        if tensor.channels_last and len(tensor.shape) != 4:
            what = f"has an input of {len(tensor.shape)} dimensions that is channels_last"
            raise self._wrong("inputs", what, "only an image is, with the shape [N, C, H, W]")
        return tensor

    def _model(self, text: str) -> str:
        """Return a MODEL; where it is in a file, that starts from the grid's folder."""
        place = Path(text.rpartition(":")[0] or text).expanduser()
        in_file = place.suffix in _FILES or "/" in text
        return str(self.folder / text) if in_file and not place.is_absolute() else text

    def _wrong(self, key: str, what: str, hint: str) -> UsageError:
        return UsageError(f"{self.file.line_of('case', self.number, key)}: case {self.data['name']} {what}", hint=hint)


def _tuples(value: Any) -> Any:
    """Return a value of the file with tuples in place of lists."""
    if isinstance(value, list):
        return tuple(map(_tuples, value))
    return {name: _tuples(entry) for name, entry in value.items()} if isinstance(value, dict) else value


@dataclass(frozen=True, kw_only=True)
class PlannedPoint(Planned):
    """A point that a campaign makes.

    Attributes:
        point: the point.
        settings: of the benchmark.
    """

    point: BenchPoint
    settings: PointSettings


@dataclass(frozen=True)
class PointsJob(PlannedJob[PlannedPoint]):
    """Points of one case that share a TOSA program."""

    def answers(self, pool: BoardPool) -> Iterator[CrewAnswer]:
        """Make the points."""
        from ethos_hil.harness.bench.case_work import CaseWork

        first = self.planned[0]
        work = CaseWork(first.point.case, first.settings, pool)
        return map(CrewAnswer, work.records([planned.point for planned in self.planned]))

    def refuse(self, planned: PlannedPoint, error: EthosHilError) -> CrewAnswer:
        """Return the answer of a point that ended in an error."""
        return CrewAnswer(refuse(planned.point, planned.settings, error).record)


@dataclass(frozen=True)
class BenchPlan:
    """What to make.

    Attributes:
        points: in the order of the grid.
        settings: what holds for all of them.
        prefix: how the names of the parts of a nightly begin that the points are; "" outside a nightly.
    """

    points: tuple[BenchPoint, ...]
    settings: PointSettings
    prefix: str = ""

    @cached_property
    def planned(self) -> tuple[PlannedPoint, ...]:
        """The points as the engine asks them."""
        return tuple(
            PlannedPoint(
                self.settings.question(point),
                point.case.name,
                part_of(self.prefix, point),
                point=point,
                settings=self.settings,
            )
            for point in self.points
        )

    def subject(self, shard: Shard | None = None) -> CampaignSubject:
        """Return what tells a run of this plan, with the tools of today, from another."""
        cases = {point.case.name: point.case for point in self.points}
        ini, grid = self.settings.vela_ini, self.settings.grid
        facets = (
            Facet("grid", grid, f"is of another grid than {grid}"),
            Facet(
                "cases",
                _digest([(asdict(case), digest_of_model(case.model)) for case in cases.values()]),
                f"has other cases of the grid {grid}, or they have changed",
            ),
            Facet(
                "points",
                _digest([point.key for point in self.points]),
                "has other NPUs, memory modes, systems or targets",
            ),
            Facet(
                "settings",
                _digest({**asdict(self.settings), "vela_ini": "" if ini is None else read_text(ini)}),
                "boots, repeats or configures Vela otherwise",
            ),
        )
        return CampaignSubject(BENCH, digest_of_plan(self.planned), tool_state(), shard=str(shard or ""), facets=facets)


def make_points(planned: Sequence[PlannedPoint], crew: CampaignCrew) -> None:
    """Make the points that a run folder has no settled record of. Each leaves one, whatever happens to it.

    Raises:
        OSError: a record cannot be written.
    """
    grid = planned[0].settings.grid if planned else ""
    crew.ask(planned, _jobs, is_settled, f"Benchmarking {grid}: {len(planned):,} points")


def is_settled(record: Record) -> bool:
    """Return whether a point's record is an answer that asking again would not change: its answers are right, it was
    only compiled and timed, or it was refused for a reason of its own. A failure, an answer that nothing vouches for,
    and a tool that was missing may end otherwise next time.
    """
    refused = is_refusal(record) and record.kind not in OF_THIS_PLACE
    return refused or judge.is_settled(record, compile_only=True)


def _jobs(planned: Sequence[PlannedPoint], attempt: int) -> Iterator[PointsJob]:
    """Yield jobs of points that share a TOSA program."""
    for _, group in groupby(planned, key=lambda it: (it.name, EthosU.parse(it.point.npu).family.tosa)):
        yield PointsJob(tuple(group), attempt)


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()


_EXPORTED = ".pt2"
MODELS_GRID = "models"
"""The name of the grid of the models on a command line."""


@dataclass(frozen=True)
class BenchOrder:
    """What is asked. Empty where nothing is said.

    Attributes:
        models: MODELs in place of a grid.
        grid: a grid's file; None for the default grid.
        cases, tags: which of its cases.
        npus, memory_modes, system_configs: in place of the grid's; "all" is every one that there is.
        targets: by name.
        scheme: in place of the cases' own.
        settings: what holds for all points; its grid is named by the plan.
    """

    models: tuple[str, ...] = ()
    grid: Path | None = None
    cases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    npus: tuple[str, ...] = ()
    memory_modes: tuple[str, ...] = ()
    system_configs: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    scheme: str | None = None
    settings: PointSettings = field(default_factory=PointSettings)

    def plan(self, *, targets_there: bool = True) -> BenchPlan:
        """Return the plan.

        Args:
            targets_there: whether a target that is not there is an error; else its points fail.

        Raises:
            UsageError: something of it is unknown, contradicts itself, or there is nothing to do.
            ToolError: a target's plug-in cannot be used, or the target is not there.
        """
        grid = select(self._grid(), self.tags, self.cases)
        if self.scheme is not None:
            problem = OPTIONS["scheme"].problem("scheme", self.scheme)
            if problem is not None:
                raise problem
            grid = replace(grid, cases=tuple(replace(case, scheme=cast(Scheme, self.scheme)) for case in grid.cases))
        modes = _modes(self.memory_modes, own=self.settings.vela_ini is not None)
        grid = replace(
            grid,
            npus=_npus(self.npus) or grid.npus,
            memory_modes=modes or grid.memory_modes,
            system_configs=tuple(dict.fromkeys(self.system_configs)) or grid.system_configs,
        )
        settings = replace(self.settings, grid=grid.name)
        settings.check()
        targets = tuple(dict.fromkeys(self.targets)) or (DEFAULT_TARGET,)
        points = points_of(grid, targets, settings)
        if targets_there:
            _check_targets(targets, grid, settings)
        return BenchPlan(points, settings)

    def _grid(self) -> BenchGrid:
        if not self.models:
            return default_grid() if self.grid is None else read_grid(self.grid, self.settings.vela_ini)
        if self.grid is not None:
            raise UsageError("a model and --grid are both given", hint="leave out one, or put the model into the grid")
        for model in self.models:
            if model.lower().endswith(PROGRAM_SUFFIXES):
                raise UsageError(f"{model} is a compiled program", hint="give the model that it was made from")
            file = Path(model if model.endswith(_EXPORTED) else model.rpartition(":")[0]).expanduser()
            if file.suffix in (".py", _EXPORTED) and not file.exists():  # now, and not at every point
                raise no_file(str(file))
        cases = (BenchCase(model, "model", (), (), tags=(LONG,), model=model) for model in dict.fromkeys(self.models))
        return BenchGrid(MODELS_GRID, tuple(cases))


def _npus(asked: Sequence[str]) -> tuple[str, ...]:
    if ALL in asked:
        return EthosU.names()
    return tuple(dict.fromkeys(EthosU.parse(name).name for name in asked))


def _modes(asked: Sequence[str], *, own: bool) -> tuple[str, ...]:
    """Return memory modes by name; those of a user's own file are not looked up."""
    if ALL in asked:
        return (ALL,)
    return tuple(dict.fromkeys(name if own else MemoryMode.parse(name).name for name in asked))


def _check_targets(targets: Sequence[str], grid: BenchGrid, settings: PointSettings) -> None:
    """Check that what boots can boot, before anything is lowered. Raises ToolError."""
    for name in targets:
        plugin = find_plugin(name)
        virtual = plugin.kind == "virtual"
        if not any(settings.boots(case, virtual=virtual) for case in grid.cases):
            continue
        able = [npu for npu in grid.npus or EthosU.names() if npu in plugin.npus]
        missing = [error for npu in able if (error := plugin.find(EthosU.parse(npu))) is not None]
        if able and len(missing) == len(able):
            raise missing[0]


def select(grid: BenchGrid, tags: Sequence[str] = (), names: Sequence[str] = ()) -> BenchGrid:
    """Return the grid with the cases that have one of the tags, and one of the names.

    Args:
        grid: the grid.
        tags: such as "short"; empty for all.
        names: patterns of a shell for the names of cases, or the names of groups; empty for all.

    Raises:
        UsageError: a tag or name takes none of the grid's cases, or no case has both; says which come close.
    """
    for tag in tags:
        known = sorted({case_tag for case in grid.cases for case_tag in case.tags})
        if tag not in known:
            raise _takes_nothing(grid, "tag", tag, known)
    for pattern in names:
        if not any(_matches(case.name, case.group, pattern) for case in grid.cases):
            known = sorted({name for case in grid.cases for name in (case.name, case.group)})
            raise _takes_nothing(grid, "name or group", pattern, known)
    chosen = tuple(
        case
        for case in grid.cases
        if (not tags or set(tags) & set(case.tags))
        and (not names or any(_matches(case.name, case.group, pattern) for pattern in names))
    )
    if not chosen:
        raise UsageError(
            f"no case of the grid {grid.name} is tagged {' or '.join(tags)} and called {' or '.join(names)}",
            hint="ask for other tags, or other names",
        )
    return replace(grid, cases=chosen)


def _matches(name: str, group: str, pattern: str) -> bool:
    return group == pattern or fnmatchcase(name, pattern)


def _takes_nothing(grid: BenchGrid, what: str, asked: str, known: Sequence[str]) -> UsageError:
    close = difflib.get_close_matches(asked.strip("*?"), known, n=3, cutoff=0.4)
    hint = f"did you mean {', '.join(close)}?" if close else f"there are {', '.join(known[:8])}"
    return UsageError(f"no case of the grid {grid.name} has the {what} {asked!r}", hint=hint)
