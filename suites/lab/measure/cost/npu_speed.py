"""The functional NPU's speed against tosa_reference_model: networks, and all programs of the conformance run.

Graphs are those of the conformance run. Everything is timed in this process, in turn with the reference, and the best
of several runs counts, so that other work on the machine matters little. "Cold" starts from bytes: it decodes the
command stream and the weights, and runs. The process that decodes weights is there already, as it is from the first
program of a process on. "Warm" runs again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from rich.console import RenderableType
from rich.table import Table

from ethos_hil.base.errors import UndefinedAnswer
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Fault, Npu, forget
from ethos_hil.harness.npu.weights import codec
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.harness.testing.compiled_graph import CompiledGraph, compile_graph
from ethos_hil.lowering.conditions.silence_tools import quiet
from ethos_hil.lowering.oracle.reference import evaluate
from ethos_hil.lowering.testing.programs.catalogue import PROGRAMS
from ethos_hil.lowering.testing.programs.networks import NETWORKS
from ethos_hil.lowering.testing.reference import reference_model
from ethos_hil.lowering.testing.tosa_graph import Array
from ethos_hil.lowering.testing.tosa_program import TosaProgram
from ethos_hil.lowering.vela.compiler import VelaRefusal
from ethos_hil.suites.lab.measure.cost.figure import BenchPart, Figure, at_least

MOBILENET = "MobileNetV2"
COMPARED = (MOBILENET, "pointwise", "depthwise")  # a network, one of 1x1 convolutions, one of depthwise ones
NPUS = ("ethos-u55-128", "ethos-u55-256", "ethos-u65-512", "ethos-u85-256", "ethos-u85-1024")
ONE_OF_EACH = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")
COLD, WARM = 15, 30  # times tosa_reference_model's speed that are aimed at with MobileNetV2
ROUNDS = 5
LEAST = f"wall, least of {ROUNDS}"
WORST = 8


@dataclass(frozen=True)
class Speed:
    """Seconds for one inference.

    Attributes:
        program: its name.
        npu: the configuration.
        operations: in the command stream.
        reference: of tosa_reference_model.
        cold, warm: of the NPU model.
    """

    program: str
    npu: str
    operations: int
    reference: float
    cold: float
    warm: float


def best(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the least wall seconds of `work`."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def inference(compiled: CompiledGraph, npu: Npu, inputs: Sequence[Array], *, cold: bool) -> float:
    """Return the wall seconds of one inference, without those of filling the memory."""
    memory = compiled.memory(inputs)
    if cold:
        forget()
    started = time.perf_counter()
    npu.run(npu.decode(compiled.stream), memory)
    return time.perf_counter() - started


def times(name: str, tosa: bytes, compiled: Sequence[CompiledGraph], inputs: Sequence[Array]) -> Iterator[Speed]:
    """Time one graph on its configurations and the reference, in turn. Raise Fault where the NPU refuses it."""
    model = reference_model()
    npus = [Npu(EthosU.parse(graph.npu)) for graph in compiled]
    reference: list[float] = []
    laps: list[tuple[list[float], list[float]]] = [([], []) for _ in compiled]
    for _ in range(ROUNDS):
        with quiet():
            reference.append(best(lambda: model.run(tosa, list(inputs)), 1))
        for graph, npu, (cold, warm) in zip(compiled, npus, laps, strict=True):
            cold.append(inference(graph, npu, inputs, cold=True))
            warm.append(inference(graph, npu, inputs, cold=False))
    for graph, (cold, warm) in zip(compiled, laps, strict=True):
        operations = len(graph.program().ops)
        yield Speed(name, graph.npu, operations, min(reference), min(cold), min(warm))


def speeds(program: TosaProgram, npus: Sequence[str]) -> Iterator[Speed]:
    """Time a program of the conformance run on those configurations for which it has a defined answer."""
    compiled = []
    for npu in npus:
        try:
            compiled.append(compile_graph(program.tosa, npu, *program.flags))
        except VelaRefusal:
            continue
    for _, inputs in program.input_sets():
        arrays = [np.ascontiguousarray(values) for values in inputs]
        try:
            evaluate(program.tosa, arrays, "the graph")
            yield from times(program.name, program.tosa, compiled, arrays)
        except (UndefinedAnswer, Fault):
            continue
        return


def speed_table(title: str, rows: Sequence[Speed]) -> Table:
    """Return a table with a row for each speed."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    timed = ("ratio", "inferences/s")
    columns = (title, "NPU", "operations", "reference", "cold", *timed, "warm", *timed)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < 2 else "right")
    for row in rows:
        cells = [row.program, row.npu, str(row.operations), milliseconds(row.reference)]
        for seconds in (row.cold, row.warm):
            cells += [milliseconds(seconds), f"{row.reference / seconds:,.2f}", f"{1 / seconds:,.1f}"]
        table.add_row(*cells)
    return table


def summary(rows: Sequence[Speed], of: Callable[[Speed], float]) -> str:
    """Return a sentence: how many programs are slower than the reference and by how much, and the speed of all."""
    behind = [of(row) - row.reference for row in rows if row.operations == 1 and of(row) > row.reference] or [0.0]
    faster = sum(of(row) <= row.reference for row in rows)
    total = sum(row.reference for row in rows) / sum(map(of, rows))
    gap = max((of(row) - row.reference) / row.operations for row in rows)
    return (
        f"{faster} of {len(rows)} are no slower, all together are {total:.1f} times as fast; "
        f"those of one operation are behind by {milliseconds(float(np.median(behind)))} in the median, "
        f"{milliseconds(max(behind))} at most; any is by {milliseconds(gap)} an operation at most"
    )


def milliseconds(seconds: float) -> str:
    """Return seconds as text in milliseconds."""
    return f"{seconds * 1e3:,.2f} ms"


def measure(live: Live) -> BenchPart:
    """Measure all figures of this part."""
    live.stage("Timing networks on the NPU model and tosa_reference_model")
    codec.DECODER.start()
    networks = [row for name in COMPARED for row in speeds(NETWORKS[name], NPUS)]
    programs: list[Speed] = []
    live.stage(f"Timing {len(PROGRAMS)} programs")
    for number, program in enumerate(PROGRAMS.values(), 1):
        programs += speeds(program, ONE_OF_EACH)
        live.step(number, len(PROGRAMS))
    return part(networks, programs)


def part(networks: Sequence[Speed], programs: Sequence[Speed]) -> BenchPart:
    """Return the figures of what was timed, the rows of the two tables."""
    figures = []
    details: list[RenderableType] = [speed_table("network", networks)]
    for what, of, aim in (("cold", _cold, COLD), ("warm", _warm, WARM)):
        # Every verified run waits for the reference, so the model must not be slower; one network has a higher aim.
        for row in networks:
            name = f"{row.program}, {row.npu}, {what}: tosa_reference_model's time / NPU model's"
            threshold = at_least(aim if row.program == MOBILENET else 1)
            figures.append(Figure(name, row.reference / of(row), "times", LEAST, threshold))
        together = sum(row.reference for row in programs) / sum(map(of, programs))
        name = f"all programs together, {what}: tosa_reference_model's time / NPU model's"
        figures.append(Figure(name, together, "times", LEAST, at_least(1)))
        worst = sorted(programs, key=lambda row: of(row) - row.reference, reverse=True)
        details.append(speed_table(f"\nfurthest behind the reference, {what}", worst[:WORST]))
        details.append(f"{what}: {summary(programs, of)}")
    groups = {"networks": networks, "programs": programs}
    data = {what: [asdict(row) for row in rows] for what, rows in groups.items()}
    return BenchPart(tuple(figures), tuple(details), data)


def _cold(row: Speed) -> float:
    return row.cold


def _warm(row: Speed) -> float:
    return row.warm
