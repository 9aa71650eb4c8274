"""What a user asks of a benchmark, and the plan that it makes."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import cast

from ethos_hil.base.dataclasses import dataclass, field, replace
from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.options import DEFAULT_TARGET, OPTIONS, Scheme
from ethos_hil.harness.bench.bench import BenchPlan
from ethos_hil.harness.bench.grid_file import default_grid, read_grid
from ethos_hil.harness.bench.points import ALL, LONG, BenchCase, BenchGrid, PointSettings, points_of
from ethos_hil.harness.targets.registry import find_plugin
from ethos_hil.lowering.program.program_file import PROGRAM_SUFFIXES, no_file
from ethos_hil.lowering.vela.memory_mode import MemoryMode

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
