"""Protects what the fuzzer found: each of these streams once ended in neither a result nor a named fault.

Those that the decoder refuses are in test_refusals.py.
"""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Fault, Npu
from ethos_hil.harness.npu.compute import output
from ethos_hil.harness.npu.isa.feature_map import RegionMemory, chain
from ethos_hil.harness.npu.isa.operations import INTERNAL, Activation
from ethos_hil.harness.npu.isa.registers_u85 import BRANCH
from ethos_hil.harness.npu.tests.streams import U55, U85, changed, compiled, fault_of, long, patched
from ethos_hil.lowering.testing.programs.catalogue import PROGRAMS
from ethos_hil.lowering.testing.tosa_program import reference


def test_repeated_operations_are_too_much_work() -> None:
    graph = compiled("add", U55)
    fault = fault_of(graph, changed(graph, {}, repeat=4_000))
    assert (fault.kind, fault.register) == ("unsupported", "milliseconds")


def test_a_branch_to_the_end_changes_nothing_of_what_runs_before_it() -> None:
    program = PROGRAMS["chain of additions"]
    graph = compiled("chain of additions", U85)
    jump = graph.stream[:-4] + long(BRANCH, len(graph.stream) + 4) + graph.stream[-4:]
    assert Npu(EthosU.parse(graph.npu)).decode(jump).has_branches
    _, inputs = program.input_sets()[0]
    arrays = [np.ascontiguousarray(array) for array in inputs]
    assert replace(graph, stream=jump).run(arrays)[0] == graph.run(arrays)[0] == reference(program.tosa, arrays)


def test_an_endless_loop_is_ended() -> None:
    graph = compiled("chain of additions", U85)
    fault = fault_of(graph, graph.stream[:-4] + long(BRANCH, 0) + graph.stream[-4:])
    assert fault.kind == "unsupported"
    assert fault.register in ("milliseconds", "BRANCH")


@pytest.mark.parametrize("register", ["IFM_STRIDE_X", "IFM_STRIDE_Y"])
def test_a_map_may_repeat_one_row_or_column(register: str) -> None:
    graph = compiled("conv 11x1", "ethos-u65-256")
    (shape,) = {value.shape for value in PROGRAMS["conv 11x1"].graph.inputs}
    values = np.random.default_rng(1).integers(-128, 128, shape, np.int8)
    values[...] = values[:, :, :1] if register == "IFM_STRIDE_X" else values[:, :1]
    assert patched(graph, **{register: 0}).run([values])[0] == graph.run([values])[0]


def test_table_indices_of_every_width_are_clamped() -> None:
    ofm, activation = chain(0, (1, 1, 4), 32, True, 0), Activation(-128, 127, table=0)
    memory = RegionMemory({INTERNAL: np.arange(256, dtype="<i4").view(np.uint8)})
    values = np.array([-(1 << 30), -129, 128, 1 << 30], np.int32).reshape(1, 1, 4)
    assert output.finish(values, ofm, activation, memory).ravel().tolist() == [0, 0, 255, 255]


def test_weights_that_end_beyond_a_large_memory_are_not_copied() -> None:
    """A board's memory is a region too. A gigabyte of it was once copied before it was found to be too short."""
    graph = compiled("conv 3x3 stride 2", U85)
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
