"""Protects the library's interface: caching, extents, access checks, the record of a run, and what a run takes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import threadpoolctl  # type: ignore[import-untyped]

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.npu import Fault, Npu
from ethos_hil.harness.npu.compute.convolution import single_thread
from ethos_hil.harness.npu.isa.operations import Dma
from ethos_hil.harness.npu.tests.test_hazards import network
from ethos_hil.harness.npu.weights import decompress, weight_coding
from ethos_hil.harness.testing.compiled_graph import CompiledGraph, compile_graph
from ethos_hil.lowering.testing.programs.catalogue import OPERATORS
from ethos_hil.lowering.testing.tosa_graph import Graph
from ethos_hil.lowering.testing.tosa_program import reference

U55_128 = EthosU.parse("ethos-u55-128")


@pytest.fixture(scope="module")
def tosa() -> bytes:
    return network()


@pytest.fixture(scope="module")
def compiled(tosa: bytes) -> CompiledGraph:
    return compile_graph(tosa, "ethos-u55-128")


@pytest.fixture
def values() -> np.ndarray:
    return np.random.default_rng(1).integers(-128, 128, (1, 16, 16, 32)).astype(np.int8)


@pytest.mark.parametrize("name", ["ethos-u55-128", "ethos-u65-512", "ethos-u85-256"])
def test_a_table_of_int16_has_signed_indices(name: str) -> None:
    rng = np.random.default_rng(3)
    graph = Graph()
    looked_up = graph.table(graph.input((1, 4, 5, 8), "int16"), np.linspace(-20000, 9000, 513).astype(int))
    tosa = graph.output(graph.rescale(looked_up, 1 / 128, dtype="int16")).serialize()
    array = rng.integers(-32768, 32768, (1, 4, 5, 8)).astype(np.int16)
    assert compile_graph(tosa, name).run([array])[0] == reference(tosa, [array])


def test_one_program_serves_changing_constants(tosa: bytes, compiled: CompiledGraph, values: np.ndarray) -> None:
    """Prepared weights and scales are not used after their bytes have changed."""
    other_tosa = network(bias=30000)
    other = compile_graph(other_tosa, "ethos-u55-128")
    assert other.program() is compiled.program()
    for _ in range(2):
        assert compiled.run([values])[0] == reference(tosa, [values])
        assert other.run([values])[0] == reference(other_tosa, [values])
    assert reference(tosa, [values]) != reference(other_tosa, [values])


def test_all_weights_of_a_program_are_decoded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also weights that a DMA copies first: starting a decoder for each would cost more than decoding."""
    compiled = compile_graph(OPERATORS["conv, pool, residual in bricks"].tosa, "ethos-u55-256")
    program = compiled.program()
    assert any(isinstance(op, Dma) and op.destination.region == 1 for op in program.ops)
    batches: list[int] = []
    start = weight_coding.Batch.start

    def counted(batch: weight_coding.Batch) -> None:
        batches.append(len(batch._streams))
        start(batch)

    monkeypatch.setattr(weight_coding.Batch, "start", counted)
    decompress.forget()
    compiled.run([])
    assert batches == [len(program.weight_sources)]
    assert batches[0] > 1


def test_arrays_may_be_larger_than_needed(tosa: bytes, compiled: CompiledGraph, values: np.ndarray) -> None:
    npu = Npu(U55_128)
    memory = compiled.memory([values])
    larger = {region: np.concatenate([array, np.full(777, 0xEE, np.uint8)]) for region, array in memory.items()}
    npu.run(npu.decode(compiled.stream), larger)
    lut = U55_128.lut_base
    assert (npu._internal[:lut].any(), npu._internal[lut:].any()) == (False, True), "tables stay from run to run"
    (output,) = compiled.outputs
    assert [output.of(larger[1]).tobytes()] == reference(tosa, [values])
    assert (larger[1][-777:] == 0xEE).all()


def test_extents_are_the_bytes_touched(compiled: CompiledGraph, values: np.ndarray) -> None:
    program = compiled.program()
    assert program.extents[0].write_end == 0
    assert compiled.weights.size - 16 < program.extents[0].read_end <= compiled.weights.size  # padded to 16
    scratch = program.extents[1]
    assert max(scratch.read_end, scratch.write_end) == compiled.scratch_bytes
    memory = compiled.memory([values])
    before = memory[1].copy()
    Npu(U55_128).run(program, memory)
    changed = np.flatnonzero(memory[1] != before)
    assert scratch.write_begin <= changed.min()
    assert changed.max() < scratch.write_end


def test_an_access_that_a_region_does_not_have_is_a_bus_fault_of_its_operation(
    compiled: CompiledGraph, values: np.ndarray, recorded: Recorded
) -> None:
    """The last constant is a multiplier."""
    npu, short, absent, constant = Npu(U55_128), *(compiled.memory([values]) for _ in range(3))
    short[0] = short[0][: compiled.program().extents[0].read_end - 1]
    del absent[0]
    constant[1].flags.writeable = False
    faults = {}
    for name, memory in (("a byte short", short), ("not there", absent), ("read-only", constant)):
        with pytest.raises(Fault) as caught:
            npu.run(npu.decode(compiled.stream), memory)
        faults[name] = f"{caught.value}; {caught.value.register}"
    recorded.check(faults)


@pytest.mark.parametrize(
    "array", [np.zeros(9999, np.int8), np.zeros((99, 99), np.uint8), np.zeros(9999, np.uint8)[::2]]
)
def test_regions_of_another_kind_are_refused(compiled: CompiledGraph, array: np.ndarray) -> None:
    npu = Npu(U55_128)
    with pytest.raises(ValueError, match="region 1 must be"):
        npu.run(npu.decode(compiled.stream), {0: compiled.weights, 1: array})


@pytest.mark.parametrize("seed", range(6))
def test_a_flipped_bit_in_the_weights_is_never_silent(
    seed: int, tosa: bytes, compiled: CompiledGraph, values: np.ndarray
) -> None:
    """A bit in the middle of a weight stream gives a Fault or another result; never the same result, never a crash."""
    at = compiled.program().weight_sources[1].streams[0]
    damaged = compiled.weights.copy()
    rng = np.random.default_rng(seed)
    damaged[at.base + int(rng.integers(at.length // 4, at.length // 2))] ^= np.uint8(1 << int(rng.integers(8)))
    fault = None
    outputs = None
    try:
        outputs = replace(compiled, weights=damaged).run([values])[0]
    except Fault as caught:
        fault = caught
    assert outputs != reference(tosa, [values])
    if fault is not None:
        assert (fault.kind, fault.op, fault.register) == ("parse", "CONV", "WEIGHT_LENGTH")
        assert "corrupt" in fault.message


def test_importing_the_package_imports_neither_vela_nor_torch() -> None:
    heavy = {"torch", "ethosu", "tosa_reference_model", "executorch"}
    code = f"import sys, ethos_hil.harness.npu; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- Protects the NPU model from its own threads


def threads() -> set[int]:
    """Return how many threads the BLAS of NumPy would use; others that a process has loaded are never called here."""
    libraries = [library for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]
    return {library["num_threads"] for library in libraries if "numpy" in library["filepath"]}


def test_blas_uses_one_thread_inside_and_its_old_number_afterwards() -> None:
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = threads()
        assert len(before) == 1
        with single_thread():
            assert threads() == {1}
        assert threads() == before
