"""Known defects are repaired, refused by name, or left in; what has no name yet is an error."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ethos_hil.base.errors import CompileError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.family import Family
from ethos_hil.base.npu.u55 import U55
from ethos_hil.base.npu.u65 import U65
from ethos_hil.base.npu.u85 import U85
from ethos_hil.lowering.repairs import mend as mending
from ethos_hil.lowering.repairs.checks import excess_padding, scan_padding
from ethos_hil.lowering.repairs.constant_result import constant_results, scan_results
from ethos_hil.lowering.repairs.defect import DefectFinding
from ethos_hil.lowering.repairs.mend import KnownDefect, Mended, mend, mend_crash
from ethos_hil.lowering.testing.programs.pieces import layer, requantized, spread, weights
from ethos_hil.lowering.testing.tosa_graph import Graph
from ethos_hil.lowering.vela.compiler import VelaCrash, flags, run_vela
from ethos_hil.lowering.vela.memory_mode import MemoryMode


def place(finding: DefectFinding) -> str:
    return f"{finding.op} at net.py:7"


def mended(graph: Graph, npu: str, *, as_upstream: bool = False) -> Mended:
    name = EthosU.parse(npu)
    arguments = flags(name, MemoryMode.default(name))
    return mend(run_vela(graph.serialize(), arguments), arguments, as_upstream=as_upstream, place=place)


def two_outputs() -> Graph:
    graph, rng = Graph(), np.random.default_rng(0)
    first = graph.transpose(layer(graph, rng, graph.input((1, 8, 8, 4)), 6, 3), (0, 3, 1, 2))
    return graph.output(first, graph.transpose(first, (0, 1, 3, 2)))


def table_behind_a_reshape() -> Graph:
    graph, rng = Graph(), np.random.default_rng(0)
    sums = graph.conv(graph.input((1, 4, 6, 20)), weights(rng, 16, 1, 1, 20), rng.integers(-99, 99, 16))
    view = graph.reshape(requantized(graph, rng, sums, spread(20), "int8"), (1, 4, 6, 2, 8))
    return graph.output(graph.table(view, rng.integers(-128, 128, 256)))


def test_a_program_without_a_defect_is_left_alone() -> None:
    graph = Graph()
    graph.output(layer(graph, np.random.default_rng(0), graph.input((1, 8, 8, 4)), 6, 3))
    name = EthosU.parse("ethos-u55-128")
    arguments = flags(name, MemoryMode.default(name))
    output = run_vela(graph.serialize(), arguments)
    done = mend(output, arguments, as_upstream=False, place=place)
    assert done.output is output
    assert done.findings == ()


def test_a_repaired_program_has_all_outputs() -> None:
    done = mended(two_outputs(), "ethos-u85-256")
    assert [finding.defect.id for finding in done.findings] == ["vela-dropped-output"]
    assert len(done.output.parsed.outputs) == 2
    left = mended(two_outputs(), "ethos-u85-256", as_upstream=True)
    assert [finding.defect.id for finding in left.findings] == ["vela-dropped-output"]
    assert len(left.output.parsed.outputs) == 1


def test_a_defect_without_a_repair_is_refused_by_name() -> None:
    graph = Graph()
    graph.output(graph.resize(graph.input((1, 5, 6, 8)), "NEAREST", (2, 1, 4, 1), (0, 0), (0, 0)))
    with pytest.raises(KnownDefect) as caught:
        mended(graph, "ethos-u55-128")
    assert "RESIZE at net.py:7 (vela-uneven-resize, docs/defects/vela-uneven-resize.md)" in caught.value.message
    assert "repeat" in (caught.value.hint or "")
    assert caught.value.exit_status == 2


def test_what_has_no_name_yet_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mending, "DEFECTS", ())
    with pytest.raises(CompileError, match="it has 1 of the 2 outputs"):
        mended(two_outputs(), "ethos-u55-128")
    with pytest.raises(CompileError, match=r"has \d+ positions of padding at the bottom of a window of 1"):
        mended(table_behind_a_reshape(), "ethos-u55-128")


@pytest.mark.parametrize("npu", ["ethos-u55-128", "ethos-u65-512", "ethos-u85-256"])
def test_excess_padding_is_seen_in_the_stream(npu: str) -> None:
    left = mended(table_behind_a_reshape(), npu, as_upstream=True).output
    assert [padding.side for padding in excess_padding(left.parsed, left.tosa)] == ["bottom"]
    repaired = mended(table_behind_a_reshape(), npu).output
    assert excess_padding(repaired.parsed, repaired.tosa) == ()
    # Each register by itself: a window of 3 x 3 may be padded by 2, not by 3.
    for code, side in ((0x100, "top"), (0x101, "left"), (0x102, "right"), (0x103, "bottom")):
        for padding, wrong in ((2, []), (3, [side])):
            words = [0x120 | 2 << 16, 0x121 | 2 << 16, code | padding << 16, 0x002]
            stream = b"".join(word.to_bytes(4, "little") for word in words)
            assert [padding.side for padding in scan_padding(stream)] == wrong


def transposed_constant() -> Graph:
    graph = Graph()
    constant = graph.transpose(graph.const(np.arange(168).reshape(1, 14, 3, 4) % 99, "int8"), (0, 2, 3, 1))
    return graph.output(graph.concat([graph.input((1, 3, 4, 14)), constant], 0))


def test_a_result_among_the_constants_is_seen_in_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    done = mended(transposed_constant(), "ethos-u55-128")
    assert [finding.defect.id for finding in done.findings] == ["vela-constant-result"]
    assert constant_results(done.output.parsed) == ()
    monkeypatch.setattr(mending, "DEFECTS", ())  # nothing repairs it now: the check alone must see it
    with pytest.raises(CompileError, match="writes among the constants, which may be in flash"):
        mended(transposed_constant(), "ethos-u55-128")


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
    assert scan_results(b"".join(word.to_bytes(4, "little") for word in words), family) == offsets


def test_outputs_of_another_size_are_seen() -> None:
    done = mended(two_outputs(), "ethos-u55-128")
    first, second = done.output.parsed.outputs
    assert mending.missing_outputs(done.output) is None
    other = dataclasses.replace(done.output, tosa=table_behind_a_reshape().serialize())
    assert mending.missing_outputs(other) == "it has 2 of the 1 outputs"
    assert first.size == second.size
    shorter = dataclasses.replace(second, shape=(*second.shape[:-1], second.shape[-1] - 1))
    parsed = dataclasses.replace(done.output.parsed, outputs=(first, shorter))
    cut = dataclasses.replace(done.output)
    vars(cut)["parsed"] = parsed  # as if Vela had said so
    assert mending.missing_outputs(cut) == f"its output 1 has {shorter.size} bytes instead of {second.size}"


def query_of_a_batch(dimensions: tuple[int, ...] = (3, 2, 4, 5, 6)) -> Graph:
    graph, ones = Graph(), (1, *dimensions[1:])
    query = graph.slice(graph.input(dimensions), (0,) * len(dimensions), ones)
    return graph.output(graph.table(graph.reshape(query, dimensions[1:]), np.arange(-128, 128)))


def test_a_program_on_which_vela_crashes_is_repaired() -> None:
    arguments = flags(EthosU.parse("ethos-u55-128"), MemoryMode.default(EthosU.parse("ethos-u55-128")))
    tosa = query_of_a_batch().serialize()
    with pytest.raises(VelaCrash) as crash:
        run_vela(tosa, arguments)
    done = mend_crash(crash.value, tosa, arguments, U55, place)
    assert [finding.defect.id for finding in done.findings] == ["vela-sliced-input"]
    assert len(done.output.parsed.outputs) == 1


def test_a_crash_that_nothing_explains_is_raised() -> None:
    arguments = flags(EthosU.parse("ethos-u55-128"), MemoryMode.default(EthosU.parse("ethos-u55-128")))
    with pytest.raises(VelaCrash) as crash:
        run_vela(query_of_a_batch().serialize(), arguments)
    harmless = query_of_a_batch((3, 1, 4, 5, 6)).serialize()
    with pytest.raises(VelaCrash) as caught:
        mend_crash(crash.value, harmless, arguments, U55, place)
    assert caught.value is crash.value


@pytest.mark.parametrize(
    ("kernel", "stride", "added"), [((2, 1), (3, 3), (0, 0, 0, 0)), ((3, 3), (2, 2), (0, 1, 0, 1))]
)
def test_outputs_that_no_input_reaches_are_no_excess(
    kernel: tuple[int, int], stride: tuple[int, int], added: tuple[int, int, int, int]
) -> None:
    """They are computed from padding alone; the program is right (harness/npu/tests/test_pools_in_parts.py)."""
    graph, rng = Graph(), np.random.default_rng(0)
    sums = graph.transpose_conv(
        graph.input((1, 6, 5, 9)), weights(rng, 8, *kernel, 9), rng.integers(-99, 99, 8), stride=stride, out_pad=added
    )
    graph.output(requantized(graph, rng, sums, 0.01, "int8"))
    output = mended(graph, "ethos-u85-256").output
    assert scan_padding(output.parsed.command_stream)
    assert excess_padding(output.parsed, output.tosa) == ()
