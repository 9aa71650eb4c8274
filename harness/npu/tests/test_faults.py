"""Protects what the fuzzer found: each of these streams once ended in neither a result nor a named fault."""

from __future__ import annotations

import struct
import tracemalloc
from dataclasses import replace
from time import process_time

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Fault, Npu
from ethos_hil.harness.npu.compute import output
from ethos_hil.harness.npu.isa.feature_map import RegionMemory, chain
from ethos_hil.harness.npu.isa.operations import INTERNAL, Activation
from ethos_hil.harness.npu.isa.registers import PAYLOAD_SHIFT, Opcode
from ethos_hil.harness.npu.isa.registers_u55 import LONG, SHORT
from ethos_hil.harness.npu.isa.registers_u85 import BRANCH
from ethos_hil.harness.npu.isa.registers_u85 import LONG as LONG_U85
from ethos_hil.harness.npu.isa.registers_u85 import SHORT as SHORT_U85
from ethos_hil.harness.npu.isa.stream import commands
from ethos_hil.harness.testing.compiled_graph import CompiledGraph, compile_graph
from ethos_hil.lowering.testing.programs.catalogue import PROGRAMS
from ethos_hil.lowering.testing.tosa_program import reference


def compiled(name: str, npu: str) -> CompiledGraph:
    program = PROGRAMS[name]
    return compile_graph(program.tosa, npu, *program.flags)


def short(code: int, value: int) -> bytes:
    return struct.pack("<HH", code, value)


def long(code: int, value: int) -> bytes:
    return struct.pack("<HHI", 1 << PAYLOAD_SHIFT | code, value >> 32, value & 0xFFFFFFFF)


def changed(graph: CompiledGraph, values: dict[str, int], repeat: int = 1) -> bytes:
    """The stream with other values in registers, and its operations repeated."""
    tables = (SHORT_U85, LONG_U85) if "u85" in graph.npu else (SHORT, LONG)
    stream = b""
    for _, code, parameter, payload in commands(graph.stream):
        if payload is None:
            name = tables[0][code].name if code in tables[0] else Opcode(code).name
            stream += short(code, values.get(name, parameter)) * (repeat if code in range(2, 17) else 1)
        else:
            name = tables[1][code].name if code != BRANCH else "BRANCH"
            stream += long(code, values.get(name, parameter << 32 | payload))
    return stream


def fault_of(graph: CompiledGraph, stream: bytes) -> Fault:
    """Return the fault of running a stream on a program's memory, within 3 s of CPU time; a hang takes minutes."""
    started = process_time()
    npu = Npu(EthosU.parse(graph.npu))
    with pytest.raises(Fault) as caught:
        npu.run(npu.decode(stream), graph.memory([]))
    assert process_time() - started < 3
    return caught.value


def test_hazards_end_at_stop() -> None:
    graph = compiled("add", "ethos-u55-128")
    npu = Npu(EthosU.parse(graph.npu))
    assert npu.decode(graph.stream + b"\xff" * 8).hazards == ()


def test_a_transfer_of_nothing_is_refused() -> None:
    graph = compiled("int8 gather", "ethos-u85-256")
    fault = fault_of(graph, changed(graph, {"DMA0_LEN": 0}))
    assert (fault.kind, fault.op, fault.register) == ("unsupported", "DMA", "DMA0_LEN")


def test_a_map_that_fits_by_strides_of_zero_is_too_much_work() -> None:
    graph = compiled("add", "ethos-u55-128")
    strides = {f"{name}_STRIDE_{axis}": 0 for name in ("IFM", "IFM2", "OFM") for axis in "XY"}
    shape = {f"{name}_{what}_M1": 1023 for name in ("OFM", "IFM", "IFM2") for what in ("HEIGHT0", "HEIGHT1", "WIDTH0")}
    fault = fault_of(graph, changed(graph, {**strides, **shape, "OFM_HEIGHT_M1": 1023, "OFM_WIDTH_M1": 1023}))
    assert (fault.kind, fault.op, fault.register) == ("unsupported", "ELEMENTWISE ADD", "milliseconds")


def test_repeated_operations_are_too_much_work() -> None:
    graph = compiled("add", "ethos-u55-128")
    fault = fault_of(graph, changed(graph, {}, repeat=4_000))
    assert (fault.kind, fault.register) == ("unsupported", "milliseconds")


def test_a_stream_has_an_end() -> None:
    graph = compiled("add", "ethos-u55-128")
    npu = Npu(EthosU.parse(graph.npu))
    with pytest.raises(Fault, match="more than any real program has"):
        npu.decode(changed(graph, {}, repeat=10_000))


def test_a_branch_to_the_end_changes_nothing_of_what_runs_before_it() -> None:
    program = PROGRAMS["chain of additions"]
    graph = compiled("chain of additions", "ethos-u85-256")
    jump = graph.stream[:-4] + long(BRANCH, len(graph.stream) + 4) + graph.stream[-4:]
    assert Npu(EthosU.parse(graph.npu)).decode(jump).has_branches
    _, inputs = program.input_sets()[0]
    arrays = [np.ascontiguousarray(array) for array in inputs]
    assert replace(graph, stream=jump).run(arrays)[0] == graph.run(arrays)[0] == reference(program.tosa, arrays)


def test_an_endless_loop_is_ended() -> None:
    graph = compiled("chain of additions", "ethos-u85-256")
    fault = fault_of(graph, graph.stream[:-4] + long(BRANCH, 0) + graph.stream[-4:])
    assert fault.kind == "unsupported"
    assert fault.register in ("milliseconds", "BRANCH")


def test_a_branch_target_cannot_rely_on_earlier_registers() -> None:
    """On the way of the branch, these registers were not written and these chains not filled."""
    graph = compiled("chain of additions", "ethos-u85-256")
    ops = [offset for offset, code, _, payload in commands(graph.stream) if payload is None and code in range(2, 17)]
    fault = fault_of(graph, graph.stream[:-4] + long(BRANCH, ops[-1]) + graph.stream[-4:])
    assert (fault.kind, fault.offset) == ("parse", ops[-1])
    assert "never written" in fault.message


@pytest.mark.parametrize("register", ["IFM_STRIDE_X", "IFM_STRIDE_Y"])
def test_a_map_may_repeat_one_row_or_column(register: str) -> None:
    graph = compiled("conv 11x1", "ethos-u65-256")
    (shape,) = {value.shape for value in PROGRAMS["conv 11x1"].graph.inputs}
    values = np.random.default_rng(1).integers(-128, 128, shape, np.int8)
    values[...] = values[:, :, :1] if register == "IFM_STRIDE_X" else values[:, :1]
    npu, memory = Npu(EthosU.parse(graph.npu)), graph.memory([values])
    npu.run(npu.decode(changed(graph, {register: 0})), memory)
    assert [slot.of(memory[1]).tobytes() for slot in graph.outputs] == graph.run([values])[0]


def test_table_indices_of_every_width_are_clamped() -> None:
    ofm, activation = chain(0, (1, 1, 4), 32, True, 0), Activation(-128, 127, table=0)
    memory = RegionMemory({INTERNAL: np.arange(256, dtype="<i4").view(np.uint8)})
    values = np.array([-(1 << 30), -129, 128, 1 << 30], np.int32).reshape(1, 1, 4)
    assert output.finish(values, ofm, activation, memory).ravel().tolist() == [0, 0, 255, 255]


def test_accumulators_that_hold_nothing_are_not_a_region() -> None:
    graph = compiled("conv 3x3 stride 2", "ethos-u85-256")
    with pytest.raises(Fault) as caught:
        Npu(EthosU.parse(graph.npu)).decode(changed(graph, {"ACC_FORMAT": 0x310}))
    assert (caught.value.kind, caught.value.op) == ("parse", "CONV")
    assert (caught.value.register, caught.value.value) == ("ACC_FORMAT", 0x310)


def test_operands_scaled_beyond_64_bits_are_refused() -> None:
    graph = compiled("int32 mul", "ethos-u85-256")
    scales = {"IFM_SCALE": 1 << 45 | 0xFFFFFFFF, "IFM2_SCALE": 1 << 45 | 0xFFFFFFFF}
    npu, memory = Npu(EthosU.parse(graph.npu)), graph.memory([])
    with pytest.raises(Fault, match="IFM_SCALE") as caught:
        npu.run(npu.decode(changed(graph, scales)), memory)
    assert caught.value.kind == "unsupported"


def test_weights_that_end_beyond_a_large_memory_are_not_copied() -> None:
    """A board's memory is a region too. A gigabyte of it was once copied before it was found to be too short."""
    graph = compiled("conv 3x3 stride 2", "ethos-u85-256")
    npu, memory = Npu(EthosU.parse(graph.npu)), graph.memory([])
    memory[0] = np.zeros(1 << 30, np.uint8)
    program = npu.decode(changed(graph, {"WEIGHT_LENGTH": 0x7FFFFFF0}))
    tracemalloc.start()
    try:
        with pytest.raises(Fault) as caught:
            npu.run(program, memory)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.kind == "bus"
    assert peak < 16 << 20
