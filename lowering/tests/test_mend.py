"""Known defects are repaired, refused by name, or left in; what has no name yet is an error."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ethos_hil.base.errors import CompileError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.family import Family
from ethos_hil.base.npu.u55 import U55
from ethos_hil.base.npu.u65 import U65
from ethos_hil.base.npu.u85 import U85
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.lowering.repairs import mend as mending
from ethos_hil.lowering.repairs import rewrites
from ethos_hil.lowering.repairs.checks import Overrun, excess_padding, overruns, scan, scan_padding
from ethos_hil.lowering.repairs.constant_result import constant_results, scan_results
from ethos_hil.lowering.repairs.defect import DefectFinding
from ethos_hil.lowering.repairs.mend import KnownDefect, Mended, mend, mend_crash
from ethos_hil.lowering.testing.programs.pieces import layer, requantized, spread, weights
from ethos_hil.lowering.testing.tosa_graph import Graph, Value
from ethos_hil.lowering.testing.tosa_program import Rng
from ethos_hil.lowering.tests.conftest import MODELS, Lowered, refusals
from ethos_hil.lowering.tests.known_model import marked
from ethos_hil.lowering.vela.compiler import VelaCrash, flags, run_vela
from ethos_hil.lowering.vela.memory_mode import MemoryMode


def place(finding: DefectFinding) -> str:
    return f"{finding.op} at net.py:7"


def flags_of(npu: str) -> tuple[str, ...]:
    return flags(EthosU.parse(npu), MemoryMode.default(EthosU.parse(npu)))


def mended(graph: Graph, npu: str, *, as_upstream: bool = False) -> Mended:
    output = run_vela(graph.serialize(), flags_of(npu))
    done = mend(output, flags_of(npu), as_upstream=as_upstream, place=place)
    assert done.findings or done.output is output
    return done


def defects(done: Mended) -> list[str]:
    return [finding.defect.id for finding in done.findings]


def stream(*words: int) -> bytes:
    return struct.pack(f"<{len(words)}I", *words)


def two_outputs() -> Graph:
    graph, rng = Graph(), np.random.default_rng(0)
    first = graph.transpose(layer(graph, rng, graph.input((1, 8, 8, 4)), 6, 3), (0, 3, 1, 2))
    return graph.output(first, graph.transpose(first, (0, 1, 3, 2)))


def table_behind_a_reshape() -> Graph:
    graph, rng = Graph(), np.random.default_rng(0)
    sums = graph.conv(graph.input((1, 4, 6, 20)), weights(rng, 16, 1, 1, 20), rng.integers(-99, 99, 16))
    view = graph.reshape(requantized(graph, rng, sums, spread(20), "int8"), (1, 4, 6, 2, 8))
    return graph.output(graph.table(view, rng.integers(-128, 128, 256)))


def test_a_repaired_program_has_all_outputs_and_one_without_a_defect_is_left_alone() -> None:
    done = mended(two_outputs(), "ethos-u85-256")
    left = mended(two_outputs(), "ethos-u85-256", as_upstream=True)
    assert defects(done) == defects(left) == ["vela-dropped-output"]
    assert (len(done.output.parsed.outputs), len(left.output.parsed.outputs)) == (2, 1)
    graph = Graph()
    graph.output(layer(graph, np.random.default_rng(0), graph.input((1, 8, 8, 4)), 6, 3))
    assert defects(mended(graph, "ethos-u55-128")) == []


def test_a_defect_without_a_repair_or_whose_repair_vela_refuses_is_refused_by_name(recorded: Recorded) -> None:
    uneven, cropped, rng = Graph(), Graph(), np.random.default_rng(0)
    uneven.output(uneven.resize(uneven.input((1, 5, 6, 8)), "NEAREST", (2, 1, 4, 1), (0, 0), (0, 0)))
    source, kernels, bias = cropped.input((1, 2, 6, 9)), weights(rng, 8, 3, 3, 9), rng.integers(-99, 99, 8)
    sums = cropped.transpose_conv(source, kernels, bias, stride=(2, 1), out_pad=(-2, -2, 0, 0))
    cropped.output(cropped.rescale(sums, 0.01))
    recorded.check(refusals(*(partial(mended, graph, "ethos-u55-128") for graph in (uneven, cropped))))
    assert KnownDefect.exit_status == 2


@pytest.mark.parametrize("npu", ["ethos-u55-128", "ethos-u65-512", "ethos-u85-256"])
def test_excess_padding_is_seen_in_the_stream(npu: str) -> None:
    left = mended(table_behind_a_reshape(), npu, as_upstream=True).output
    assert [padding.side for padding in excess_padding(left.parsed, left.tosa)] == ["bottom"]
    repaired = mended(table_behind_a_reshape(), npu).output
    assert excess_padding(repaired.parsed, repaired.tosa) == ()
    # Each register by itself: a window of 3 x 3 may be padded by 2, not by 3.
    for code, side in enumerate(("top", "left", "right", "bottom"), 0x100):
        for padding, wrong in ((2, []), (3, [side])):
            words = stream(0x120 | 2 << 16, 0x121 | 2 << 16, code | padding << 16, 0x002)
            assert [excess.side for excess in scan_padding(words)] == wrong


def transposed_constant() -> Graph:
    graph = Graph()
    constant = graph.transpose(graph.const(np.arange(168).reshape(1, 14, 3, 4) % 99, "int8"), (0, 2, 3, 1))
    return graph.output(graph.concat([graph.input((1, 3, 4, 14)), constant], 0))


def test_a_result_among_the_constants_is_repaired() -> None:
    done = mended(transposed_constant(), "ethos-u55-128")
    assert defects(done) == ["vela-constant-result"]
    assert constant_results(done.output.parsed) == ()


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (two_outputs, "it has 1 of the 2 outputs"),
        (table_behind_a_reshape, r"has \d+ positions of padding at the bottom of a window of 1"),
        (transposed_constant, "writes among the constants, which may be in flash"),
    ],
)
def test_what_has_no_name_yet_is_an_error(
    graph: Callable[[], Graph], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing repairs it now: the checks alone must see it."""
    monkeypatch.setattr(mending, "DEFECTS", ())
    with pytest.raises(CompileError, match=message):
        mended(graph(), "ethos-u55-128")


@pytest.mark.parametrize(
    ("words", "family", "offsets"),
    [
        ([0x11F | 1 << 16, 0x005, 0x11F, 0x006], U55, (12,)),
        ([0x11F | 1 << 16, 0x114 | 2 << 30, 0x11F, 0x002], U55, (12,)),  # there it is how to round
        ([0x11F | 1 << 16, 0x114 | 2 << 30, 0x11F, 0x002], U85, ()),  # a chain
        ([0x131 | 0x100 << 16, 0x010, 0x131 | 2 << 16, 0x010, 0x131, 0x010], U65, (20,)),
    ],
    ids=["elementwise", "rounded", "chained", "copied"],
)
def test_operations_that_write_to_region_0(words: list[int], family: Family, offsets: tuple[int, ...]) -> None:
    assert scan_results(stream(*words), family) == offsets


def test_outputs_of_another_size_are_seen() -> None:
    done = mended(two_outputs(), "ethos-u55-128")
    first, second = done.output.parsed.outputs
    assert mending.missing_outputs(done.output) is None
    other = dataclasses.replace(done.output, tosa=table_behind_a_reshape().serialize())
    assert mending.missing_outputs(other) == "it has 2 of the 1 outputs"
    shorter = dataclasses.replace(second, shape=(*second.shape[:-1], second.shape[-1] - 1))
    cut = dataclasses.replace(done.output)  # as if Vela had said so
    vars(cut)["parsed"] = dataclasses.replace(done.output.parsed, outputs=(first, shorter))
    assert mending.missing_outputs(cut) == f"its output 1 has {shorter.size} bytes instead of {second.size}"


def query_of_a_batch(dimensions: tuple[int, ...] = (3, 2, 4, 5, 6)) -> Graph:
    graph, ones = Graph(), (1, *dimensions[1:])
    query = graph.slice(graph.input(dimensions), (0,) * len(dimensions), ones)
    return graph.output(graph.table(graph.reshape(query, dimensions[1:]), np.arange(-128, 128)))


def test_a_program_on_which_vela_crashes_is_repaired_where_a_defect_explains_it() -> None:
    arguments = flags_of("ethos-u55-128")
    tosa = query_of_a_batch().serialize()
    with pytest.raises(VelaCrash) as crash:
        run_vela(tosa, arguments)
    done = mend_crash(crash.value, tosa, arguments, U55, place)
    assert defects(done) == ["vela-sliced-input"]
    assert len(done.output.parsed.outputs) == 1
    harmless = query_of_a_batch((3, 1, 4, 5, 6)).serialize()
    with pytest.raises(VelaCrash) as caught:
        mend_crash(crash.value, harmless, arguments, U55, place)
    assert caught.value is crash.value


def beyond_its_stride(graph: Graph, source: Value, rng: Rng) -> Value:
    kernels = weights(rng, 8, 2, 1, 9)
    return graph.transpose_conv(source, kernels, rng.integers(-99, 99, 8), stride=(3, 3))


def with_added_rows(graph: Graph, source: Value, rng: Rng) -> Value:
    kernels = weights(rng, 8, 3, 3, 9)
    return graph.transpose_conv(source, kernels, rng.integers(-99, 99, 8), stride=(2, 2), out_pad=(0, 1, 0, 1))


def padded_beyond_its_kernel(graph: Graph, source: Value, rng: Rng) -> Value:
    return graph.conv(source, weights(rng, 8, 1, 3, 9), rng.integers(-99, 99, 8), pad=(1, 0, 0, 0))


def depthwise_padded(graph: Graph, source: Value, rng: Rng) -> Value:
    kernels = weights(rng, 9, 2, 3).reshape(2, 3, 9, 1)
    return graph.depthwise(source, kernels, rng.integers(-99, 99, 9), dilation=(2, 1), pad=(0, 0, 0, 3))


def solid_padded(graph: Graph, source: Value, rng: Rng) -> Value:
    maps = graph.reshape(source, (1, 2, 3, 5, 9))
    sums = graph.conv3d(maps, weights(rng, 8, 2, 1, 1, 9), rng.integers(-99, 99, 8), pad=(0, 0, 0, 1, 0, 0))
    return graph.reshape(sums, (1, 4, 5, 8))


@pytest.mark.parametrize(
    "build", [beyond_its_stride, with_added_rows, padded_beyond_its_kernel, depthwise_padded, solid_padded]
)
def test_outputs_that_no_input_reaches_are_no_excess(build: Callable[[Graph, Value, Rng], Value]) -> None:
    """They are computed from padding alone; the program is right (harness/npu/tests/test_pools_in_parts.py)."""
    graph, rng = Graph(), np.random.default_rng(0)
    sums = build(graph, graph.input((1, 6, 5, 9)), rng)
    graph.output(requantized(graph, rng, sums, 0.01, "int8"))
    output = mended(graph, "ethos-u85-256").output
    assert scan_padding(output.parsed.command_stream)
    assert excess_padding(output.parsed, output.tosa) == ()


# --- Transfers beyond the NPU's internal memory are found, whatever order the registers were set in; others are not.

REGION, DESTINATION, LENGTH, SOURCE = 0x131, 0x031, 0x032, 0x030
INTERNAL, SHRAM, START = 0x100, 0x4000, stream(0x10)


def region(value: int) -> bytes:
    return stream(value << 16 | REGION)


def wide(register: int, value: int) -> bytes:
    return stream(value >> 32 << 16 | 0x4000 | register, value & 0xFFFFFFFF)


def table_at(address: int, size: int = 256) -> bytes:
    return region(INTERNAL) + wide(DESTINATION, address) + wide(LENGTH, size) + START


@pytest.mark.parametrize(
    ("words", "offsets"),
    [
        *((table_at(address), [20]) for address in (SHRAM, SHRAM - 1, SHRAM - 255, 0x6000, 1 << 32)),
        *((table_at(address), []) for address in (0, SHRAM - 256)),
        (region(1) + wide(DESTINATION, 1 << 33) + wide(LENGTH, 256) + START, []),  # to other memory
        (wide(SOURCE, 1 << 33) + table_at(0), []),  # it does not matter where from
        # Registers keep their values.
        (table_at(0x3000) + wide(DESTINATION, SHRAM) + START + region(1) + START + region(INTERNAL) + START, [32, 48]),
        # Payloads of another register that look like a DMA_START, and like the choice of the region.
        (wide(DESTINATION, SHRAM) + wide(LENGTH, 256) + wide(5, 0x10) + wide(5, INTERNAL << 16 | REGION) + START, []),
    ],
)
def test_a_table_beyond_shram_is_found_by_where_it_is_written(words: bytes, offsets: list[int]) -> None:
    assert [transfer.offset for transfer in scan(words, SHRAM)] == offsets
    assert scan(table_at(SHRAM - 1), SHRAM) == (Overrun(20, SHRAM - 1, SHRAM + 255, SHRAM),)


def test_the_sizes_stand_in_the_config_word(lowered: Lowered) -> None:
    (delegate,) = lowered("add").delegates
    blob = delegate.blob
    assert overruns(blob) == ()
    for word, count in ((0x1005, 1), (0x1006, 1), (0x1807, 0), (0x3008, 0)):  # ethos-u55-32, -64, -128, -256
        late = table_at(SHRAM)
        other = dataclasses.replace(blob, command_data=late, stream_offset=0, stream_size=len(late), config_word=word)
        assert len(overruns(other)) == count


# --- Moving tables before transpositions changes neither results nor anything else, and frees small NPUs of a defect.


@pytest.mark.proof
def test_lowering_for_a_small_npu_moves_the_tables(lowered: Lowered) -> None:
    artifact = lowered("late_tables", EthosU.parse("ethos-u55-64"))
    (delegate,) = artifact.delegates
    assert overruns(delegate.blob) == ()
    assert [note.split(":")[0] for note in artifact.notes] == ["vela-table-beyond-shram"]
    assert (delegate.defects, delegate.compiled is not None) == (("vela-table-beyond-shram",), True)
    # The reference stays upstream's program: it is what the rewriting is verified by.
    larger = lowered("late_tables")
    assert larger.notes == ()
    assert delegate.tosa == larger.delegates[0].tosa
    graph = TosaGraph.parse(delegate.tosa or b"")
    fed = [graph.producers().get(operator.inputs[0]) for operator in graph.operators if operator.op == "TABLE"]
    assert "TRANSPOSE" in {producer.op for producer in fed if producer is not None}
    assert Reference(artifact).run(artifact.example_inputs).outputs
    # The map is of the rewritten program, and still complete.
    assert all(op.source and op.tosa_op and op.aten_ops for op in artifact.npu_ops)
    gates = {aten for op in artifact.npu_ops if op.source == marked("late_gate") for aten in op.aten_ops}
    assert {"aten.conv2d.default", "aten.sigmoid.default", "aten.mul.Tensor"} <= gates


@pytest.mark.slow
def test_a_defect_that_remains_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(rewrites, "_move", lambda block, operator, chain: None)  # compiled as it is
    with pytest.raises(CompileError) as caught:
        lower(f"{MODELS}:late_tables", EthosU.parse("ethos-u55-64"), cache=Cache(tmp_path))
    assert caught.value.message.startswith("Vela 5.1.0 places a look-up table beyond the SHRAM of ethos-u55-64")
    assert "ethos-u55-128" in (caught.value.hint or "")
    assert list(tmp_path.rglob("*.pte")) == []


def test_a_defect_that_the_installed_vela_has_not_is_not_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sees red where it would be: a rewriting without need, and a note that accuses the wrong version."""
    monkeypatch.setattr(mending, "version", lambda _: "5.2.0")
    assert defects(mended(table_behind_a_reshape(), "ethos-u55-128", as_upstream=True)) == []
    monkeypatch.undo()
    assert defects(mended(table_behind_a_reshape(), "ethos-u55-128", as_upstream=True)) == ["vela-fused-shape"]
