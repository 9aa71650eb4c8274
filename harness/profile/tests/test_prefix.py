"""Prefix differencing: rows sum to the whole, noise merges rows, and counts that cannot be are refused."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import pytest

from ethos_hil.base.errors import TargetError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.link.outcome import DelegateRun, PrefixRun
from ethos_hil.harness.npu import Npu
from ethos_hil.harness.npu.isa.feature_map import Layout
from ethos_hil.harness.npu.isa.operations import Branch, Dma
from ethos_hil.harness.profile.prefix import COMMAND_BYTES, StreamPart, shares, stream_parts
from ethos_hil.harness.testing.compiled_graph import CompiledGraph, compile_graph
from ethos_hil.lowering.artifact import NpuOp
from ethos_hil.lowering.testing.programs.catalogue import PROGRAMS

ACTIVE, MAC = 35, 48
ENDS = (8, 20, 36)
"""Three parts; in `LOOP` the last one has no cut."""


def row(number: int, end: int) -> NpuOp:
    return NpuOp(f"npu{number:05d}", "Conv2D", end - 4, "CONV2D", (), "", "", (), 0)


PARTS = tuple(StreamPart((row(number, end),), end) for number, end in enumerate(ENDS))
LOOP = (*PARTS[:2], StreamPart(PARTS[2].rows, None))


def call(
    *cycles: int, events: Sequence[tuple[int | None, ...]] = (), parts: Sequence[StreamPart] = PARTS
) -> DelegateRun:
    """Return a call whose jobs take so long: no operation, each prefix, and all of the stream."""
    counted = events or [()] * len(cycles)
    ends = [0, *(part.end for part in parts if part.end is not None)]
    prefixes = tuple(map(PrefixRun, ends, cycles[:-1], counted[:-1]))
    return DelegateRun(3, 0, cycles[-1], counted[-1], (), (), prefixes)


SPLIT: dict[str, Sequence[DelegateRun]] = {
    "rows and the job sum to the whole": [call(5, 105, 105, 150, 150)],
    "the median of each prefix counts":
        [call(0, 100, 200, 300, 300), call(0, 104, 204, 300, 300), call(0, 90, 203, 306, 306)],
    "what noise hides is one part": [call(0, 100, 104, 200, 200), call(0, 108, 106, 204, 204)],
    "a last part that noise hides joins the one before": [call(0, 100, 200, 203, 203), call(0, 101, 207, 206, 206)],
    "events are differences too, and one that has wrapped has none": [
        call(0, 10, 20, 30, 30, events=[(0,), (10,), (20,), (30,), (30,)]),
        call(0, 10, 20, 30, 30, events=[(0,), (4,), (None,), (9,), (9,)]),
    ],
    "in a loop the end of the stream ends what cannot be cut": [call(0, 10, 30, 90, parts=LOOP)],
    "not monotone": [call(0, 100, 90, 200, 200)],
    "all takes longer than the last prefix": [call(0, 100, 120, 200, 210)],
    "all takes less than the last prefix": [call(0, 100, 120, 200, 100)],
    "a prefix too few": [call(0, 100, 120, 150, parts=LOOP)],
}  # fmt: skip


@pytest.mark.parametrize("what", SPLIT)
def test_differences_are_the_parts_cycles_and_counts_that_cannot_be_are_refused(what: str, recorded: Recorded) -> None:
    parts = LOOP if "loop" in what else PARTS
    events = [(ACTIVE,), (MAC,)] if "events" in what else [()] * len(SPLIT[what])
    try:
        found = shares(parts, SPLIT[what], events)
    except TargetError as error:
        recorded.check(f"{error.kind}: {error.message}")
        return
    recorded.check("\n".join(f"{of.parts}: {of.cycles}, spread {of.spread}, {of.events}" for of in found))


# Where a command stream may be cut, on what Vela compiles: a prefix does exactly what comes before its cut.


NPUS = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")
STOP = (0xFFFF0000).to_bytes(4, "little")


@functools.cache
def compiled(program: str, npu: str) -> CompiledGraph:
    return compile_graph(PROGRAMS[program].tosa, npu)


def cycles(graph: CompiledGraph, end: int | None) -> int:
    """Return what a fresh NPU takes for a prefix, or for all of the stream, on memory of zeros."""
    npu = Npu(EthosU.parse(graph.npu))
    stream = graph.stream if end is None else graph.stream[:end] + STOP
    return npu.run(npu.decode(stream), graph.memory([])).cycles


@pytest.mark.parametrize("npu", NPUS)
@pytest.mark.parametrize("name", ["residual", "keywords"])
def test_a_prefix_ends_when_the_last_of_its_operations_ends(name: str, npu: str) -> None:
    """So differences are what the model gives each operation, but where a transfer outlasts the kernel behind it."""
    graph = compiled(name, npu)
    parts = stream_parts(graph.stream, (), EthosU.parse(npu))
    timed = graph.program().timing().ops
    assert cycles(graph, 0) == 0
    shares = 0
    for part in parts:
        assert part.end is not None
        before = [op for op in timed if op.offset < part.end]
        total = cycles(graph, part.end)
        assert total == max(op.end for op in before)
        shares = sum(op.cycles for op in before)
        outlasting = any(op.name == "DMA" and op.end >= total for op in before)
        assert total == shares or outlasting
    assert total == shares == cycles(graph, None)


def test_a_chain_is_not_cut() -> None:
    graph = compiled("residual", "ethos-u85-256")
    chained = [op.offset for op in graph.program().ops if not isinstance(op, Dma) and op.ofm.layout is Layout.CHAIN]
    assert chained, "the program has no chain; take another"
    parts = stream_parts(graph.stream, (), EthosU.parse(graph.npu))
    ends = {part.end for part in parts}
    assert not ends & {offset + COMMAND_BYTES for offset in chained}
    assert sum(len(part.rows) for part in parts) == len(graph.program().ops), "no row is lost"


def test_a_loop_is_one_part() -> None:
    graph = compiled("loop", "ethos-u85-256")
    program = graph.program()
    branches = [instruction for instruction in program.instructions if isinstance(instruction, Branch)]
    assert branches, "the program has no branch; take another"
    parts = stream_parts(graph.stream, (), EthosU.parse(graph.npu))
    assert parts[-1].end is None or parts[-1].end > branches[-1].offset
    for branch in branches:
        target = program.instructions[branch.target].offset if branch.target < len(program.instructions) else None
        for part in parts:
            if part.end is not None and target is not None:
                assert not min(target, branch.offset) < part.end <= max(target, branch.offset)


def test_a_row_that_ends_inside_an_operation_is_refused() -> None:
    """Otherwise its cut would be lost, and its cycles be with its neighbour without a word."""
    graph = compiled("residual", "ethos-u55-128")
    npu = EthosU.parse(graph.npu)
    right = [row for part in stream_parts(graph.stream, (), npu) for row in part.rows]
    assert len(stream_parts(graph.stream, right, npu)) == len(right)
    inside = dataclasses.replace(right[1], end_offset=right[1].end_offset - COMMAND_BYTES)
    with pytest.raises(ValueError, match=f"npu00001 of the delegate map ends at byte {inside.end_offset}, where no op"):
        stream_parts(graph.stream, [right[0], inside, *right[2:]], npu)
