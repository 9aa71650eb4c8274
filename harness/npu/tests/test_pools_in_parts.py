"""Protects what several pools do together: parts of one pool with large strides, and the slices of a transposition.

Pools and convolutions with padding and a stride above 3 are computed by several operations on Ethos-U85. Pools that
differ only in their addresses are not decoded each: the shortcut gives the same as decoding. Those that look alike but
differ in anything else are decoded.
"""

from __future__ import annotations

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.npu import Fault, Npu
from ethos_hil.harness.npu.compute import pooling
from ethos_hil.harness.npu.decode.decoder import PoolRepeater, decode
from ethos_hil.harness.npu.isa.operations import Pool
from ethos_hil.harness.npu.isa.registers_u55 import SHORT
from ethos_hil.harness.npu.isa.stream import commands
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
    assert compiled.run([values])[0] == reference(tosa, [values])
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
    assert compiled.run([values])[0] != reference(tosa, [values])


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


# --- Slices of a transposition.


U55 = EthosU.parse("ethos-u55-128")


def transposed(shape: tuple[int, ...], axes: tuple[int, ...]) -> CompiledGraph:
    """Return a graph of one transposition, which Ethos-U55 does slice by slice."""
    graph = Graph()
    graph.output(graph.transpose(graph.input(shape), axes))
    return compile_graph(graph.serialize(), U55.name)


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
    ops = decode(stream, U55)
    assert len(ops) > 400
    assert len(decoded) < 8
    monkeypatch.setattr(PoolRepeater, "repeat", lambda self, code, parameter: self.forget())
    assert decode(stream, U55) == ops
    assert len(decoded) > 400


@pytest.mark.parametrize(
    ("register", "value"), [("OFM_WIDTH_M1", 3), ("IFM_ZERO_POINT", 5), ("ACTIVATION_MIN", 1), ("IFM_REGION", 0)]
)
def test_a_change_of_any_register_that_matters_is_decoded(
    register: str, value: int, decoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = transposed((1, 48, 40, 24), (0, 1, 3, 2)).stream
    changed = written_late(stream, register, value)
    ops, short = decode(changed, U55), len(decoded)
    assert ops != decode(stream, U55)
    monkeypatch.setattr(PoolRepeater, "repeat", lambda self, code, parameter: self.forget())
    assert decode(changed, U55) == ops
    assert short < 8


def test_registers_that_pools_ignore_change_nothing(decoded: list[int]) -> None:
    stream = transposed((1, 48, 40, 24), (0, 1, 3, 2)).stream
    decode(stream, U55)
    ways = len(decoded)
    decode(written_late(stream, "BLOCKDEP", 1), U55)
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
        Npu(U55).run(compiled.program(), memory)
    assert caught.value.offset == next(op.offset for op in ops if last in op.accesses)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_thousands_of_slices_are_a_real_program(dtype: str) -> None:
    """A permutation of six axes stays within the bounds on work and decoding, and is exact."""
    graph = Graph()
    shape = (3, 7, 8, 9, 5, 4)
    tosa = graph.output(graph.transpose(graph.input(shape, dtype), (5, 3, 1, 0, 4, 2))).serialize()
    compiled = compile_graph(tosa, U55.name)
    assert len(compiled.program().ops) > 5000
    values = np.random.default_rng(0).integers(-99, 99, shape).astype(dtype)
    assert compiled.run([values])[0] == reference(tosa, [values])
