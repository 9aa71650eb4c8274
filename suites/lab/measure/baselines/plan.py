"""What is benchmarked for the published baselines: every network everywhere, and what of that is booted."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ethos_hil.base.errors import ToolError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.bench.bench import BenchPlan
from ethos_hil.harness.bench.case import LONG, SHORT, BenchCase, BenchGrid
from ethos_hil.harness.bench.points import PointSettings, points_of
from ethos_hil.lowering.vela.memory_mode import MemoryMode
from ethos_hil.suites.lab.measure.baselines.networks import NETWORKS
from ethos_hil.suites.lab.prove.upstream.setting import REPOSITORY

GRID = "baselines"
"""The name of the grid in the records."""
BOOTED = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")
"""One NPU of each generation, on which every network is booted in its default memory mode."""
ZOO = REPOSITORY / "build/zoo"
_TARGET = "virtual"


def plan_of(networks: Sequence[str], npus: Sequence[str]) -> BenchPlan:
    """Return the points of some networks on some NPUs. Those that are booted too have a case of their own.

    Raises:
        UsageError: no NPU has such a name.
    """
    settings = PointSettings(GRID)
    chosen = [NETWORKS[name] for name in networks]
    timed = tuple(
        BenchCase(network.name, network.name, (), (), tags=(LONG,), model=network.model) for network in chosen
    )
    booted = tuple(
        BenchCase(f"{network.name}.booted", network.name, (), (), tags=(SHORT,), model=network.model)
        for network in chosen
    )
    points = points_of(BenchGrid(GRID, timed, tuple(npus)), (_TARGET,), settings)
    on_boards = tuple(npu for npu in npus if npu in BOOTED)
    if on_boards:
        candidates = points_of(BenchGrid(GRID, booted, on_boards), (_TARGET,), settings)
        points += tuple(point for point in candidates if point.memory_mode == default_mode(point.npu))
    return BenchPlan(points, settings)


def is_booted(case: BenchCase) -> bool:
    """Return whether a case of the plan is the one of points that are booted."""
    return case.booted


def default_mode(npu: str) -> str:
    """Return ExecuTorch's default memory mode for an NPU."""
    return MemoryMode.default(EthosU.parse(npu)).name


def use_zoo() -> None:
    """Let the processes that are started from here import torchvision, from where `make zoo` puts it.

    Raises:
        ToolError: it is not there.
    """
    if not (ZOO / ".installed").exists():
        raise ToolError("torchvision is not installed", hint="make build/zoo/.installed")
    place, before = str(ZOO / "packages"), os.environ.get("PYTHONPATH", "")
    if place not in before.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(part for part in (before, place) if part)
