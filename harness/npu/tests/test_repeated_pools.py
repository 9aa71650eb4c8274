"""Protects the shortcut for pools that differ only in their addresses: it gives the same as decoding.

Pools that look alike but differ in anything else are decoded.
"""

from __future__ import annotations

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Fault, Npu
from ethos_hil.harness.npu.decode.decoder import PoolRepeater, decode
from ethos_hil.harness.npu.isa.operations import Pool
from ethos_hil.harness.npu.isa.registers_u55 import SHORT
from ethos_hil.harness.npu.isa.stream import commands
from ethos_hil.harness.testing.compiled_graph import CompiledGraph, compile_graph
from ethos_hil.lowering.testing.tosa_graph import Graph
from ethos_hil.lowering.testing.tosa_program import reference

NPU = EthosU.parse("ethos-u55-128")


def transposed(shape: tuple[int, ...], axes: tuple[int, ...]) -> CompiledGraph:
    """Return a graph of one transposition, which Ethos-U55 does slice by slice."""
    graph = Graph()
    graph.output(graph.transpose(graph.input(shape), axes))
    return compile_graph(graph.serialize(), NPU.name)


@pytest.fixture(name="decoded")
def count_decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that collects the codes of operations that are decoded."""
    codes: list[int] = []
    remember = PoolRepeater.remember

    def noted(self: PoolRepeater, code: int, parameter: int, op: Pool) -> None:
        codes.append(code)
        remember(self, code, parameter, op)

    monkeypatch.setattr(PoolRepeater, "remember", noted)
    return codes


def test_repeated_slices_equal_decoded_ones(decoded: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture's channels are put first: of hundreds of pools only a few need decoding."""
    stream = transposed((1, 3, 224, 224), (0, 3, 1, 2)).stream
    ops = decode(stream, NPU)
    assert len(ops) > 400
    assert len(decoded) < 8
    monkeypatch.setattr(PoolRepeater, "repeat", lambda self, code, parameter: self.forget())
    assert decode(stream, NPU) == ops
    assert len(decoded) > 400


@pytest.mark.parametrize(
    ("register", "value"), [("OFM_WIDTH_M1", 3), ("IFM_ZERO_POINT", 5), ("ACTIVATION_MIN", 1), ("IFM_REGION", 0)]
)
def test_a_change_of_any_register_that_matters_is_decoded(
    register: str, value: int, decoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = transposed((1, 48, 40, 24), (0, 1, 3, 2)).stream
    changed = written_late(stream, register, value)
    ops, short = decode(changed, NPU), len(decoded)
    assert ops != decode(stream, NPU)
    monkeypatch.setattr(PoolRepeater, "repeat", lambda self, code, parameter: self.forget())
    assert decode(changed, NPU) == ops
    assert short < 8


def test_registers_that_pools_ignore_change_nothing(decoded: list[int]) -> None:
    stream = transposed((1, 48, 40, 24), (0, 1, 3, 2)).stream
    decode(stream, NPU)
    ways = len(decoded)
    decode(written_late(stream, "BLOCKDEP", 1), NPU)
    assert len(decoded) == 2 * ways


def written_late(stream: bytes, register: str, value: int) -> bytes:
    """Return the stream with one more register write, after its tenth pool."""
    code = next(code for code, entry in SHORT.items() if entry.name == register)
    ends = [offset + 4 for offset, command, _, payload in commands(stream) if payload is None and command == 5]
    return stream[: ends[9]] + (value << 16 | code).to_bytes(4, "little") + stream[ends[9] :]


def test_slices_beyond_their_region_fault_where_they_are() -> None:
    """The check covers the access of each slice, not only that of the decoded one."""
    compiled = transposed((1, 48, 40, 24), (0, 1, 3, 2))
    ops = compiled.program().ops
    memory = compiled.memory([np.zeros((1, 48, 40, 24), np.int8)])
    last = max((access for op in ops for access in op.accesses if access.region == 1), key=lambda access: access.end)
    memory[1] = memory[1][: last.end - 1].copy()
    with pytest.raises(Fault, match=last.register) as caught:
        Npu(NPU).run(compiled.program(), memory)
    assert caught.value.offset == next(op.offset for op in ops if last in op.accesses)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_thousands_of_slices_are_a_real_program(dtype: str) -> None:
    """A permutation of six axes stays within the bounds on work and decoding, and is exact."""
    graph = Graph()
    shape = (3, 7, 8, 9, 5, 4)
    tosa = graph.output(graph.transpose(graph.input(shape, dtype), (5, 3, 1, 0, 4, 2))).serialize()
    compiled = compile_graph(tosa, "ethos-u55-128")
    assert len(compiled.program().ops) > 5000
    values = np.random.default_rng(0).integers(-99, 99, shape).astype(dtype)
    npu, memory = Npu(EthosU.parse(compiled.npu)), compiled.memory([values])
    npu.run(npu.decode(compiled.stream), memory)
    assert [slot.of(memory[1]).tobytes() for slot in compiled.outputs] == reference(tosa, [values])
