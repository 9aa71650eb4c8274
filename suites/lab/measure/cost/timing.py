"""The timing model, compared with Vela's estimate by class of operation.

The networks are those of the conformance run, compiled here for every configuration in its default memory mode. Vela
estimates the operations that it schedules (table `perf` of its debug database). The model's cycles of everything in the
command stream that belongs to such an operation are compared with that. `published` compares it with runs of FVPs.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping

from rich.console import RenderableType
from rich.table import Table

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu.timing.memory_system import MODES
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.harness.testing.compiled_graph import CompiledGraph, compile_graph
from ethos_hil.lowering.map.delegate_map import read_tables
from ethos_hil.lowering.testing.programs.networks import NETWORKS
from ethos_hil.lowering.vela.compiler import DEBUG_FLAGS
from ethos_hil.suites.lab.measure.cost.figure import Figure

# How near to Vela's estimate the model must be, either way, where published runs say that the estimate is good: for
# these classes, on Ethos-U55 (docs/npu.md).
CLOSE = {"Conv2D": 1.3, "DepthwiseConv2D": 1.3, "Add": 1.7, "Mul": 1.4, "Sub": 1.6}
CLOSE_ON = ("ethos-u55-128",)


@dataclass(frozen=True)
class CycleComparison:
    """Cycles of a class of operations, or of a network, over all networks.

    Attributes:
        npu: the configuration.
        what: Vela's name for the class, or the network's.
        operations: how many Vela scheduled.
        modelled: this project's cycles.
        vela: the compiler's.
    """

    npu: str
    what: str
    operations: int
    modelled: int
    vela: int

    @property
    def ratio(self) -> float:
        """Modelled over Vela's."""
        return self.modelled / max(self.vela, 1)


def ports_of(mode: str) -> Mapping[int, int]:
    """Return the AXI port of each region in a memory mode, with a limit in its name or without."""
    return next(ports for name, ports in MODES.items() if mode.startswith(name))


def by_operation(compiled: CompiledGraph) -> Iterator[tuple[str, int, int]]:
    """Yield class, modelled and estimated cycles of each operation that Vela scheduled. A chain is one operation."""
    tables = read_tables(compiled.database)
    leaders = {row["id"]: row["group_id"] for row in tables.get("group", [])}
    queue = sorted((int(row["offset"]), row["scheduled_id"]) for row in tables["queue"])
    ends = [offset for offset, _ in queue]
    modelled: dict[str, int] = {}
    for record in compiled.program().timing(ports_of(compiled.mode)).ops:
        owner = queue[min(bisect.bisect_left(ends, record.offset), len(queue) - 1)][1]
        owner = leaders.get(owner, owner)
        modelled[owner] = modelled.get(owner, 0) + record.cycles
    for row in tables["perf"]:
        if row["id"] in modelled:
            yield row["operator"], modelled[row["id"]], int(row["op_cycles"])


def compare(npu: str) -> tuple[list[CycleComparison], list[CycleComparison]]:
    """Compare classes of operations, and networks, on one configuration."""
    classes: dict[str, list[int]] = {}
    networks = []
    for name, program in NETWORKS.items():
        rows = list(by_operation(compile_graph(program.tosa, npu, *DEBUG_FLAGS, *program.flags)))
        for what, modelled, estimated in rows:
            total = classes.setdefault(what, [0, 0, 0])
            for index, value in enumerate((1, modelled, estimated)):
                total[index] += value
        networks.append(CycleComparison(npu, name, len(rows), sum(row[1] for row in rows), sum(row[2] for row in rows)))
    ordered = sorted(classes.items(), key=lambda item: -item[1][2])
    return [CycleComparison(npu, what, *total) for what, total in ordered], networks


def comparison_table(title: str, rows: list[CycleComparison]) -> Table:
    """Return a table of ratios, modelled over Vela's: classes are rows, configurations are columns."""
    npus = list(dict.fromkeys(row.npu for row in rows))
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    table.add_column("modelled / Vela")
    for npu in npus:
        table.add_column(npu.removeprefix("ethos-"), justify="right")
    cells = {(row.what, row.npu): row for row in rows}
    for what in dict.fromkeys(row.what for row in rows):
        columns = [cells.get((what, npu)) for npu in npus]
        table.add_row(what, *("" if row is None else f"{row.ratio:.2f}" for row in columns))
    return table


def measure(live: Live) -> Iterator[Figure | RenderableType]:
    """Compare all configurations with Vela's estimate."""
    classes: list[CycleComparison] = []
    networks: list[CycleComparison] = []
    for npu in EthosU.names():
        live.stage(f"Compiling for {npu}")
        some, more = compare(npu)
        classes += some
        networks += more
    yield comparison_table("by class of operation, all networks", classes)
    yield comparison_table("by network", networks)
    yield from figures(classes)


def figures(classes: list[CycleComparison]) -> Iterator[Figure]:
    """Yield how near the model is where it must be near."""
    for row in classes:
        if row.npu in CLOSE_ON and row.what in CLOSE:
            what = f"{row.what}, {row.npu}: modelled and Vela's cycles, larger / smaller"
            apart = max(row.ratio, 1 / max(row.ratio, 1e-9))
            yield Figure(what, apart, "times", "modelled, vela", at_most=CLOSE[row.what])
