"""Protects the memory that a run takes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Npu, forget
from ethos_hil.harness.testing.compiled_graph import compile_graph
from ethos_hil.lowering.testing.programs.networks import NETWORKS

NETWORK = NETWORKS["MobileNetV2"]
LARGEST_MAP = 112 * 112 * 96  # elements


@pytest.mark.parametrize("name", ["ethos-u55-128", "ethos-u65-512", "ethos-u85-256"])
def test_mobilenet_takes_less_than_three_times_its_own_data(name: str) -> None:
    """Its data are its arenas, its constants and its largest feature map in float32. A second run counts too."""
    compiled = compile_graph(NETWORK.tosa, name)
    regions = compiled.scratch_bytes + compiled.fast_bytes + compiled.weights.nbytes
    (_, inputs), *_ = NETWORK.input_sets()
    npu, memory = Npu(EthosU.parse(name)), compiled.memory(inputs)
    forget()
    tracemalloc.start()
    try:
        program = npu.decode(compiled.stream)
        for _ in range(2):
            npu.run(program, memory)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak + regions < 3 * (regions + LARGEST_MAP * np.dtype(np.float32).itemsize)
