"""The functional NPU's speed against tosa_reference_model: networks, and all programs of the conformance run.

Graphs are those of the conformance run. Everything is timed in this process, in turn with the reference, and the best
of several runs counts, so that other work on the machine matters little. "Cold" starts from bytes: it decodes the
command stream and the weights, and runs. The process that decodes weights is there already, as it is from the first
program of a process on. "Warm" runs again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UndefinedAnswer
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Fault, Npu, forget
from ethos_hil.harness.npu.weights import weight_coding
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.harness.testing.compiled_graph import CompiledGraph, compile_graph
from ethos_hil.lowering.conditions.process import quiet
from ethos_hil.lowering.oracle.reference import evaluate
from ethos_hil.lowering.testing.programs.catalogue import PROGRAMS
from ethos_hil.lowering.testing.programs.networks import NETWORKS
from ethos_hil.lowering.testing.tosa_graph import Array
from ethos_hil.lowering.testing.tosa_program import TosaProgram
from ethos_hil.lowering.vela.compiler import VelaRefusal
from ethos_hil.suites.lab.measure.cost.figure import Figure

MOBILENET = "MobileNetV2"
COMPARED = (MOBILENET, "pointwise", "depthwise")  # a network, one of 1x1 convolutions, one of depthwise ones
NPUS = ("ethos-u55-128", "ethos-u55-256", "ethos-u65-512", "ethos-u85-256", "ethos-u85-1024")
ONE_OF_EACH = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")
COLD, WARM = 15, 30  # times tosa_reference_model's speed that are aimed at with MobileNetV2
ROUNDS = 5


@dataclass(frozen=True)
class Speed:
    """Seconds for one inference: of tosa_reference_model, and of the NPU model cold and warm."""

    program: str
    npu: str
    reference: float
    cold: float
    warm: float


def inference(compiled: CompiledGraph, npu: Npu, inputs: Sequence[Array], *, cold: bool) -> float:
    """Return the wall seconds of one inference, without those of filling the memory."""
    memory = compiled.memory(inputs)
    if cold:
        forget()
    started = time.perf_counter()
    npu.run(npu.decode(compiled.stream), memory)
    return time.perf_counter() - started


def times(program: TosaProgram, compiled: Sequence[CompiledGraph], inputs: Sequence[Array]) -> Iterator[Speed]:
    """Time one graph on its configurations and the reference, in turn. Raise Fault where the NPU refuses it."""
    with quiet():
        import tosa_reference_model  # in this process: a call of its own process would be measured with it

    npus = [Npu(EthosU.parse(graph.npu)) for graph in compiled]
    reference: list[float] = []
    laps: list[tuple[list[float], list[float]]] = [([], []) for _ in compiled]
    for _ in range(ROUNDS):
        with quiet():
            started = time.perf_counter()
            tosa_reference_model.run(program.tosa, list(inputs))
            reference.append(time.perf_counter() - started)
        for graph, npu, (cold, warm) in zip(compiled, npus, laps, strict=True):
            cold.append(inference(graph, npu, inputs, cold=True))
            warm.append(inference(graph, npu, inputs, cold=False))
    for graph, (cold, warm) in zip(compiled, laps, strict=True):
        yield Speed(program.name, graph.npu, min(reference), min(cold), min(warm))


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
            yield from times(program, compiled, arrays)
        except (UndefinedAnswer, Fault):
            continue
        return


def measure(live: Live) -> Iterator[Figure]:
    """Time some networks on five NPUs, and all programs on one of each family."""
    live.stage("Timing networks on the NPU model and tosa_reference_model")
    weight_coding.DECODER.start()
    networks = [row for name in COMPARED for row in speeds(NETWORKS[name], NPUS)]
    programs: list[Speed] = []
    live.stage(f"Timing {len(PROGRAMS)} programs")
    for number, program in enumerate(PROGRAMS.values(), 1):
        programs += speeds(program, ONE_OF_EACH)
        live.step(number, len(PROGRAMS))
    yield from figures(networks, programs)


def figures(networks: Sequence[Speed], programs: Sequence[Speed]) -> Iterator[Figure]:
    """Yield the figures of what was timed.

    Every verified run waits for the reference, so the model must not be slower; one network has a higher aim.
    """
    provenance, than = f"wall, least of {ROUNDS}", "tosa_reference_model's time / NPU model's"
    for what, aim in (("cold", COLD), ("warm", WARM)):
        for row in networks:
            least, ratio = aim if row.program == MOBILENET else 1, row.reference / getattr(row, what)
            yield Figure(f"{row.program}, {row.npu}, {what}: {than}", ratio, "times", provenance, at_least=least)
        together = sum(row.reference for row in programs) / sum(getattr(row, what) for row in programs)
        yield Figure(f"all programs together, {what}: {than}", together, "times", provenance, at_least=1)
