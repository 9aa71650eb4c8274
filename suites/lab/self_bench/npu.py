"""The functional NPU's speed against tosa_reference_model and XNNPACK: networks, programs, slices, and the process.

Graphs are those of the conformance run. Everything is timed in this process, in turn with the reference, and the best
of several runs counts, so that other work on the machine matters little. "Cold" starts from bytes: it decodes the
command stream and the weights, and runs. The process that decodes weights is there already, as it is from the first
program of a process on. "Warm" runs again. XNNPACK computes the same shapes in int8 on this computer's processor.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np
from rich.console import RenderableType
from rich.table import Table

from ethos_hil.base.errors import UndefinedAnswer
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Fault, Npu, forget
from ethos_hil.harness.npu.compute.convolution import single_thread
from ethos_hil.harness.npu.isa.operations import Convolution
from ethos_hil.harness.npu.weights import codec
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.harness.testing.compiled_graph import CompiledGraph, compile_graph
from ethos_hil.lowering.conditions.silence_tools import quiet
from ethos_hil.lowering.model.torch_model import TorchModel, load_model
from ethos_hil.lowering.oracle.reference import evaluate
from ethos_hil.lowering.testing.programs.catalogue import PROGRAMS
from ethos_hil.lowering.testing.programs.networks import NETWORKS
from ethos_hil.lowering.testing.reference import reference_model
from ethos_hil.lowering.testing.tosa_graph import Array, Graph
from ethos_hil.lowering.testing.tosa_program import TosaProgram
from ethos_hil.lowering.vela.compiler import VelaRefusal
from ethos_hil.suites.lab.self_bench.figure import BenchPart, Figure, at_least
from ethos_hil.suites.lab.self_bench.xnnpack import XnnpackProgram

MOBILENET, SAME_SHAPES = "MobileNetV2", "ethos_hil.suites.models:mobilenet_v2"
COMPARED = (MOBILENET, "pointwise", "depthwise")  # a network, one of 1x1 convolutions, one of depthwise ones
NPUS = ("ethos-u55-128", "ethos-u55-256", "ethos-u65-512", "ethos-u85-256", "ethos-u85-1024")
ONE_OF_EACH = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")
SLICED = (((1, 3, 224, 224), (0, 3, 1, 2)), ((1, 3, 512, 512), (0, 3, 1, 2)), ((1, 1024, 1024, 1), (0, 3, 2, 1)))
COLD, WARM = 15, 30  # times tosa_reference_model's speed that are aimed at with MobileNetV2
ROUNDS = 5
LEAST = f"wall, least of {ROUNDS}"
WORST = 8
LARGE = 1024  # rows, columns and depth of the product of matrices that stands for what the machine can do


@dataclass(frozen=True)
class Speed:
    """Seconds for one inference.

    Attributes:
        program: its name.
        npu: the configuration.
        operations: in the command stream.
        macs: multiplications of convolutions.
        reference: of tosa_reference_model.
        cold, warm: of the NPU model.
    """

    program: str
    npu: str
    operations: int
    macs: int
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


def macs(compiled: CompiledGraph) -> int:
    """Return the multiplications of a program's convolutions."""
    total = 0
    for op in compiled.program().ops:
        if isinstance(op, Convolution):
            order = op.weights.order
            total += op.ofm.elements * order.height * order.width * order.ifm_depth
    return total


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
        yield Speed(name, graph.npu, operations, macs(graph), min(reference), min(cold), min(warm))


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


def slices() -> Iterator[Speed]:
    """Time transpositions that an Ethos-U55 does with one pool for each slice."""
    for shape, axes in SLICED:
        graph = Graph()
        graph.output(graph.transpose(graph.input(shape), axes))
        tosa = graph.serialize()
        values = np.random.default_rng(0).integers(-128, 128, shape, np.int8)
        name = f"transpose {'x'.join(map(str, shape))} to {' '.join(map(str, axes))}"
        yield from times(name, tosa, [compile_graph(tosa, ONE_OF_EACH[0])], [values])


def process_start() -> float:
    """Return the seconds that the process which decodes weights takes to start."""

    def first() -> None:
        codec.DECODER.stop()
        codec.decode([(b"", 0)])

    return best(first) - best(lambda: codec.decode([(b"", 0)]))


def multiplications() -> float:
    """Return how many float32 multiplications with additions BLAS does in a second here, with one thread."""
    values = np.ones((LARGE, LARGE), np.float32)
    out = np.empty_like(values)
    with single_thread():
        seconds = best(lambda: np.matmul(values, values, out=out))
    return LARGE**3 / seconds


def xnnpack_seconds() -> dict[int, float]:
    """Return the seconds that XNNPACK takes for an inference of MobileNetV2, by its number of threads."""
    from torch import nn

    model = load_model(SAME_SHAPES)
    assert isinstance(model, TorchModel)
    method = model.methods[model.default_name]
    features, classifier = method.module.features, method.module.classifier
    assert isinstance(features, nn.Module)
    assert isinstance(classifier, nn.Module)
    # The same network with the mean as a pool: XNNPACK takes no mean that drops axes.
    network = nn.Sequential(features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), classifier)
    program, seconds = XnnpackProgram.of(replace(method, module=network)), {}
    for threads in sorted({1, os.cpu_count() or 1}):
        loaded = program.loaded(threads)
        loaded.answer(method.example_inputs)
        seconds[threads] = best(partial(loaded.answer, method.example_inputs))
    return seconds


def inferences(networks: Sequence[Speed], xnnpack: Mapping[int, float]) -> list[tuple[str, float]]:
    """Return what does how many inferences of MobileNetV2 a second."""
    rows = [row for row in networks if row.program == MOBILENET]
    pairs = [("tosa_reference_model", min(row.reference for row in rows))] if rows else []
    for what, of in (("cold", _cold), ("warm", _warm)):
        pairs += [(f"NPU model, {row.npu}, {what}", of(row)) for row in rows]
    for threads, seconds in xnnpack.items():
        pairs.append((f"ExecuTorch's XNNPACK, int8, {threads} thread{'s' * (threads > 1)}", seconds))
    return [(what, 1 / seconds) for what, seconds in pairs]


def rate_table(rates: Sequence[tuple[str, float]]) -> Table:
    """Return a table of inferences a second; the first row is what the others are compared with."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(f"\n{MOBILENET}")
    for column in ("inferences/s", "times the reference"):
        table.add_column(f"\n{column}", justify="right")
    for who, rate in rates:
        table.add_row(who, f"{rate:,.1f}", f"{rate / rates[0][1]:,.1f}")
    return table


def speed_table(title: str, rows: Sequence[Speed], bound: float | None = None) -> Table:
    """Return a table with a row for each speed.

    With `bound` (multiplications a second), a column says how long the multiplications alone would take.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = [title, "NPU", "operations", "reference", "cold", "ratio", "warm", "ratio"]
    for index, column in enumerate(columns + ["multiplying alone"] * (bound is not None)):
        table.add_column(column, justify="left" if index < 2 else "right")
    for row in rows:
        cells = [row.program, row.npu, str(row.operations), milliseconds(row.reference)]
        for seconds in (row.cold, row.warm):
            cells += [milliseconds(seconds), f"{row.reference / seconds:,.2f}"]
        table.add_row(*cells, *([milliseconds(row.macs / bound)] if bound is not None else []))
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
    bound, start = multiplications(), process_start()
    networks = [row for name in COMPARED for row in speeds(NETWORKS[name], NPUS)]
    sliced = list(slices())
    programs: list[Speed] = []
    live.stage(f"Timing {len(PROGRAMS)} programs")
    for number, program in enumerate(PROGRAMS.values(), 1):
        programs += speeds(program, ONE_OF_EACH)
        live.step(number, len(PROGRAMS))
    live.stage("Running MobileNetV2 on XNNPACK")
    return part(networks, sliced, programs, bound, start, xnnpack_seconds())


def part(
    networks: Sequence[Speed],
    sliced: Sequence[Speed],
    programs: Sequence[Speed],
    bound: float,
    start: float,
    xnnpack: Mapping[int, float],
) -> BenchPart:
    """Return the figures of what was timed.

    Args:
        networks, sliced, programs: the rows of the tables.
        bound: multiplications a second that BLAS reaches.
        start: seconds that the process which decodes weights takes to start.
        xnnpack: seconds of XNNPACK for MobileNetV2, by its number of threads.
    """
    figures = []
    rates = inferences(networks, xnnpack)
    details: list[RenderableType] = [speed_table("network", networks, bound), rate_table(rates)]
    details.append(speed_table("\nslices", sliced))
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
    figures += [
        Figure(f"{MOBILENET}, {who}", rate, "inferences/s", LEAST) for who, rate in inferences(networks, xnnpack)
    ]
    figures.append(Figure("BLAS, one thread", bound / 1e9, "G multiplications/s", LEAST))
    figures.append(Figure("start of the process that decodes weights", start * 1e3, "ms", LEAST))
    groups = {"networks": networks, "slices": sliced, "programs": programs}
    data: dict[str, object] = {what: [asdict(row) for row in rows] for what, rows in groups.items()}
    data["xnnpack"] = {str(threads): seconds for threads, seconds in xnnpack.items()}
    return BenchPart(tuple(figures), tuple(details), data)


def _cold(row: Speed) -> float:
    return row.cold


def _warm(row: Speed) -> float:
    return row.warm
