"""Pools and convolutions with padding and a stride above 3, which several operations compute together (Ethos-U85)."""

from __future__ import annotations

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.npu import Fault, Npu
from ethos_hil.harness.npu.compute import pooling
from ethos_hil.harness.npu.isa.operations import Pool
from ethos_hil.harness.testing.compiled_graph import CompiledGraph, compile_graph, modes_of
from ethos_hil.lowering.repairs.checks import scan_padding
from ethos_hil.lowering.testing.tosa_graph import Graph, multiplier_shift
from ethos_hil.lowering.testing.tosa_program import reference

NPU = "ethos-u85-256"
POOL = 0x005
CASES = {
    "all around": ((3, 3), (4, 4), (1, 1, 1, 1), (1, 9, 9, 4), "int8"),
    "at the top and left": ((3, 3), (4, 4), (1, 0, 1, 0), (1, 10, 10, 20), "int8"),
    "at the bottom and right": ((3, 3), (5, 4), (0, 2, 0, 1), (1, 11, 10, 4), "int8"),
    "only in y": ((5, 2), (4, 1), (2, 2, 0, 0), (1, 9, 7, 3), "int8"),
    "16 bits": ((3, 4), (4, 4), (1, 1, 1, 1), (1, 9, 14, 5), "int16"),
}


def program(name: str, kind: str) -> tuple[bytes, np.ndarray]:
    kernel, stride, pad, shape, dtype = CASES[name]
    graph = Graph()
    pool = getattr(graph, kind)(graph.input(shape, dtype), kernel=kernel, stride=stride, pad=pad)
    limits = np.iinfo(dtype)
    values = np.random.default_rng(0).integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)
    values[0, :2] = limits.min
    return graph.output(pool).serialize(), values


def check(tosa: bytes, values: np.ndarray) -> CompiledGraph:
    """Compare a program's answer with the reference's."""
    compiled = compile_graph(tosa, NPU, mode=modes_of(NPU)[0])
    outputs, _ = compiled.run([values])
    assert [bytes(output) for output in outputs] == reference(tosa, [values])
    return compiled


@pytest.mark.parametrize("kind", ["max_pool", "average_pool"])
@pytest.mark.parametrize("name", CASES)
def test_a_padded_pool_with_a_large_stride_is_exact(name: str, kind: str) -> None:
    tosa, values = program(name, kind)
    compiled = check(tosa, values)
    parts = [op for op in compiled.program().ops if isinstance(op, Pool) and op.start is not None]
    assert parts, "Vela no longer splits this pool: the rules here are not needed"
    assert scan_padding(compiled.stream) == ()


def test_a_padded_convolution_with_a_large_stride_is_no_miscompilation() -> None:
    """The patches of an image transformer: 7x7 with a stride of 4. Its parts have the padding of the whole."""
    graph, rng = Graph(), np.random.default_rng(0)
    shape = (1, 16, 16, 3)
    weights, biases = rng.integers(-127, 128, (8, 7, 7, 3)), rng.integers(-99, 99, 8)
    sums = graph.conv(graph.input(shape), weights, biases, pad=(3, 0, 3, 0), stride=(4, 4))
    tosa = graph.output(graph.rescale(sums, [multiplier_shift(0.002)] * 8)).serialize()
    values = rng.integers(-128, 128, shape).astype(np.int8)
    assert scan_padding(check(tosa, values).stream) == ()


@pytest.mark.parametrize("kind", ["max_pool", "average_pool"])
def test_what_the_accumulators_hold_counts(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each part started again, the answer is another one."""
    tosa, values = program("all around", kind)
    compiled = compile_graph(tosa, NPU, mode=modes_of(NPU)[0])
    monkeypatch.setattr(pooling, "_COMBINED", {mode: lambda new, held: new for mode in pooling._COMBINED})
    outputs, _ = compiled.run([values])
    assert [bytes(output) for output in outputs] != reference(tosa, [values])


def test_other_pools_do_not_go_on() -> None:
    tosa, _ = program("all around", "average_pool")
    words = np.frombuffer(compile_graph(tosa, NPU, mode=modes_of(NPU)[0]).stream, np.uint32).copy()
    assert POOL | 3 << 16 in words
    words[words == POOL | 3 << 16] = POOL | 1 << 16
    with pytest.raises(Fault, match="ACC_FORMAT") as caught:
        Npu(EthosU.parse(NPU)).decode(words.tobytes())
    assert caught.value.kind is FailureKind.UNSUPPORTED


def test_outputs_that_no_input_reaches_are_exact() -> None:
    """A transposed convolution with a larger stride than its kernel: some windows have nothing but padding."""
    graph, rng = Graph(), np.random.default_rng(0)
    kernels = rng.integers(-127, 128, (8, 2, 1, 9))
    sums = graph.transpose_conv(graph.input((2, 6, 5, 9)), kernels, rng.integers(-99, 99, 8), stride=(3, 3))
    tosa = graph.output(graph.rescale(sums, [multiplier_shift(0.01)] * 8)).serialize()
    values = rng.integers(-128, 128, (2, 6, 5, 9)).astype(np.int8)
    assert scan_padding(check(tosa, values).stream)
