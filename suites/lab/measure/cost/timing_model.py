"""The timing model, compared with Vela's estimate by class of operation, and with published figures.

The networks are those of the conformance run, compiled here for every configuration in its default memory mode. Vela
estimates the operations that it schedules (table `perf` of its debug database). The model's cycles of everything in the
command stream that belongs to such an operation are compared with that. Published figures are those whose source states
network, configuration and memory mode, and no program that `published` could run.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np
from rich.table import Table

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.u85 import U85
from ethos_hil.harness.npu.timing import timing_model
from ethos_hil.harness.npu.timing.memory_system import MODES
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.harness.testing.compiled_graph import CompiledGraph, compile_graph, modes_of
from ethos_hil.lowering.map.delegate_map import read_tables
from ethos_hil.lowering.testing.programs.networks import NETWORKS
from ethos_hil.lowering.testing.tosa_graph import Graph
from ethos_hil.lowering.vela.compiler import DEBUG_FLAGS
from ethos_hil.suites.lab.measure.cost.figure import BenchPart, Figure, at_most

MOBILENET = "MobileNetV2"
_U85 = U85.system
# The notebook does not state the latency of its memory. With the 500 cycles of Ethos_U85_SYS_DRAM_Mid no read buffer of
# that NPU could bring its weights in the time; these are the numbers of Ethos_U85_SYS_DRAM_Low's adapters.
NOTEBOOK = replace(_U85, ports=(_U85.ports[0], replace(_U85.ports[1], read_latency=250, write_latency=125)))
# How near to Vela's estimate the model must be, either way, where published runs say that the estimate is good: for
# these classes, on Ethos-U55 (docs/npu.md).
CLOSE = {"Conv2D": 1.3, "DepthwiseConv2D": 1.3, "Add": 1.7, "Mul": 1.4, "Sub": 1.6}
CLOSE_ON = ("ethos-u55-128",)


@dataclass(frozen=True)
class CycleComparison:
    """Cycles of a class of operations, or of a network, over all networks.

    Attributes:
        npu, mode: configuration and memory mode.
        what: Vela's name for the class, or the network's.
        operations: how many Vela scheduled.
        modelled: this project's cycles.
        vela: the compiler's.
    """

    npu: str
    mode: str
    what: str
    operations: int
    modelled: int
    vela: int

    @property
    def ratio(self) -> float:
        """Modelled over Vela's."""
        return self.modelled / max(self.vela, 1)


@dataclass(frozen=True)
class Published:
    """A published figure that was measured on the FVP, and this model's.

    Attributes:
        what: network, configuration, memory mode and event.
        source: where it was published.
        figure: the published one; the middle where two are given.
        modelled: ours.
        note: what differs.
    """

    what: str
    source: str
    figure: int
    modelled: int
    note: str = ""

    @property
    def ratio(self) -> float:
        """Modelled over published."""
        return self.modelled / self.figure


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
    mode = modes_of(npu)[0]
    classes: dict[str, list[int]] = {}
    networks = []
    for name, program in NETWORKS.items():
        compiled = compile_graph(program.tosa, npu, *DEBUG_FLAGS, *program.flags)
        rows = list(by_operation(compiled))
        for what, modelled, estimated in rows:
            total = classes.setdefault(what, [0, 0, 0])
            for index, value in enumerate((1, modelled, estimated)):
                total[index] += value
        networks.append(
            CycleComparison(npu, mode, name, len(rows), sum(row[1] for row in rows), sum(row[2] for row in rows))
        )
    ordered = sorted(classes.items(), key=lambda item: -item[1][2])
    return [CycleComparison(npu, mode, what, *total) for what, total in ordered], networks


def published() -> list[Published]:
    """Return the published figures whose source says what was run."""
    mobilenet = compile_graph(NETWORKS[MOBILENET].tosa, "ethos-u55-128", mode="Sram_Only")
    rows = [
        Published(
            "MobileNetV2 224x224, ethos-u55-128, Sram_Only: NPU cycles",
            "executorch issue 9830",
            5_500_000,
            mobilenet.program().timing(ports_of("Sram_Only")).cycles,
            "weights of the conformance network; the input's transposition included",
        )
    ]
    source = "examples/arm/pruning_minimal_example.ipynb"
    for kept, label, cycles, decoding, beats in (
        (1.0, "dense", 98_000, 74_000, 32_000),
        (0.05, "5 % of weights", 22_000, 17_000, 3_000),
    ):
        compiled = compile_graph(dense_layers(kept), "ethos-u85-128", mode="Shared_Sram")
        result = compiled.program().timing(ports_of("Shared_Sram"), NOTEBOOK)
        what = f"784-512-256-10, ethos-u85-128, Shared_Sram, {label}"
        note = f"{compiled.weights.size / 1024:.0f} KiB of weights here; a latency of 250 cycles is assumed"
        rows += [
            Published(f"{what}: NPU active", source, cycles, result.cycles, note),
            Published(f"{what}: MAC active", source, 8_000, result.events[timing_model.MAC_ACTIVE]),
            Published(f"{what}: weight decoder active", source, decoding, result.events[timing_model.DECODER_ACTIVE]),
            Published(f"{what}: EXT beats read", source, beats, result.events[timing_model.AXI_READ_BEATS[1]]),
        ]
    return rows


def dense_layers(kept: float) -> bytes:
    """Return a graph of dense layers, 784-512-256-10, in which the fraction `kept` of the weights is not zero."""
    rng = np.random.default_rng(0)
    graph = Graph()
    value = graph.input((1, 1, 1, 784))
    for depth, out in ((784, 512), (512, 256), (256, 10)):
        weights = np.clip(np.round(rng.normal(0, 32, (out, 1, 1, depth))), -127, 127).astype(int)
        sums = graph.conv(value, weights * (rng.random(weights.shape) < kept), np.zeros(out))
        value = graph.clamp(graph.rescale(sums, 0.002), 0, 127)
    return graph.output(value).serialize()


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


def published_table(rows: list[Published]) -> Table:
    """Return a table with a row for each figure."""
    table = Table(title="published FVP figures", title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in ("what", "published", "modelled", "ratio", "source", "note"):
        table.add_column(column, justify="right" if column in ("published", "modelled", "ratio") else "left")
    for row in rows:
        table.add_row(row.what, f"{row.figure:,}", f"{row.modelled:,}", f"{row.ratio:.2f}", row.source, row.note)
    return table


def measure(live: Live) -> BenchPart:
    """Compare all configurations."""
    classes: list[CycleComparison] = []
    networks: list[CycleComparison] = []
    for configuration in EthosU.all():
        live.stage(f"Compiling for {configuration.name}")
        some, more = compare(configuration.name)
        classes += some
        networks += more
    return part(classes, networks, published())


def part(classes: list[CycleComparison], networks: list[CycleComparison], figures: list[Published]) -> BenchPart:
    """Return the figures of what was compared."""
    close = [row for row in classes if row.npu in CLOSE_ON and row.what in CLOSE]
    return BenchPart(
        (
            *(
                Figure(
                    f"{row.what}, {row.npu}: modelled and Vela's cycles, larger / smaller",
                    max(row.ratio, 1 / max(row.ratio, 1e-9)),
                    "times",
                    "modelled, vela",
                    at_most(CLOSE[row.what]),
                )
                for row in close
            ),
            *(
                Figure(f"{row.what}: modelled / published", row.ratio, "times", f"modelled, {row.source}")
                for row in figures
            ),
        ),
        (
            comparison_table("by class of operation, all networks", classes),
            comparison_table("by network", networks),
            published_table(figures),
        ),
        {
            "classes": [{**asdict(row), "ratio": row.ratio} for row in classes],
            "networks": [{**asdict(row), "ratio": row.ratio} for row in networks],
            "published": [{**asdict(row), "ratio": row.ratio} for row in figures],
        },
    )
