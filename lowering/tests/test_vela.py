"""The one call of Vela: what it compiles is what ExecuTorch's call compiles, and its failures are told apart."""

from __future__ import annotations

import resource

import numpy as np
import pytest

from ethos_hil.base.errors import CompileError, ToolError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.native.worker import VELA
from ethos_hil.lowering.testing.tosa_graph import Graph
from ethos_hil.lowering.vela.compiler import DEBUG_FLAGS, VelaRefusal, flags, run_vela
from ethos_hil.lowering.vela.memory_mode import MemoryMode

U55 = EthosU.parse("ethos-u55-128")
PLACES = (
    (U55, MemoryMode("Shared_Sram")),
    (EthosU.parse("ethos-u65-512"), MemoryMode("Dedicated_Sram_384KB")),
    (EthosU.parse("ethos-u85-256"), MemoryMode("Sram_Only")),
)


def products() -> bytes:
    """Two layers: constants, two inputs of different types and shapes, and an output."""
    graph = Graph()
    first = graph.rescale(graph.input((1, 5, 6, 8)), 1.0, dtype="int32")
    second = graph.rescale(graph.input((1, 1, 1, 8), "int16"), 0.5, dtype="int32")
    return graph.output(graph.table(graph.rescale(graph.binary("MUL", first, second), 0.01), np.arange(-128, 128)))\
        .serialize()  # fmt: skip


def bitwise() -> bytes:
    """What an Ethos-U55 cannot do."""
    graph = Graph()
    return graph.output(graph.binary("BITWISE_XOR", graph.input((1, 4)), graph.input((1, 4)))).serialize()


@pytest.mark.slow
@pytest.mark.parametrize(("npu", "mode"), PLACES, ids=str)
def test_it_compiles_what_executorchs_call_compiles(npu: EthosU, mode: MemoryMode) -> None:
    from executorch.backends.arm.arm_vela import vela_compile
    from executorch.backends.arm.ethosu import EthosUCompileSpec

    tosa = products()
    arguments = EthosUCompileSpec(npu.name, memory_mode=mode.name).compiler_flags
    assert flags(npu, mode) == tuple(arguments)
    theirs = vela_compile(tosa, list(arguments))
    ours = run_vela(tosa, arguments)
    assert ours.blob == theirs
    assert run_vela(tosa, [*arguments, *DEBUG_FLAGS]).blob == theirs
    assert len(ours.parsed.inputs) == 2
    assert ours.parsed.weights


def test_it_leaves_a_summary_a_listing_and_with_the_flags_a_database() -> None:
    chosen = flags(U55, MemoryMode("Shared_Sram"))
    plain, debugged = run_vela(products(), chosen), run_vela(products(), [*chosen, *DEBUG_FLAGS])
    assert plain.database == ""
    assert "<debug" in debugged.database
    assert plain.summary["memory_mode"] == "Shared_Sram"
    assert plain.summary["cycles_total"] == debugged.summary["cycles_total"]
    assert "Network summary" in plain.listing


def test_what_the_npu_cannot_run_is_a_refusal() -> None:
    with pytest.raises(VelaRefusal, match="could not run on NPU"):
        run_vela(bitwise(), flags(U55, MemoryMode("Shared_Sram")))


@pytest.mark.parametrize(
    ("tosa", "more", "message"),
    [
        (b"", (), "Vela"),
        (products(), ("--no-such-flag",), "SystemExit: 2"),
        (products(), ("--system-config=None_Such",), "None_Such"),
    ],
    ids=["no program", "no such flag", "no such system"],
)
def test_other_failures_are_no_refusals(
    tosa: bytes, more: tuple[str, ...], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CompileError, match=message) as caught:
        run_vela(tosa, [*flags(U55, MemoryMode("Shared_Sram")), *more])
    assert not isinstance(caught.value, VelaRefusal)
    assert capfd.readouterr() == ("", "")


def test_a_full_disk_is_not_the_programs_fault() -> None:
    VELA.require()
    assert VELA._process is not None
    pid = VELA._process.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (10, before[1]))  # bytes: no file of Vela's is as small
    try:
        with pytest.raises(ToolError, match="File too large") as caught:
            run_vela(products(), flags(U55, MemoryMode("Shared_Sram")))
    finally:
        VELA.stop()
    assert caught.value.hint is not None
    assert "TMPDIR" in caught.value.hint
    assert run_vela(products(), flags(U55, MemoryMode("Shared_Sram"))).blob
