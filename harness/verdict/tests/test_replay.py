"""Every tensor of a right program is found and equal, however it was divided; a broken operation is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Npu
from ethos_hil.harness.npu.isa.feature_map import FeatureMap, Layout, RegionMemory
from ethos_hil.harness.npu.isa.operations import Dma, Op
from ethos_hil.harness.npu.npu import Observer
from ethos_hil.harness.verdict import replay as module
from ethos_hil.harness.verdict.replay import elements_of, replay
from ethos_hil.harness.verdict.run_delegate import DelegateResult, run_delegate
from ethos_hil.lowering.artifact import NpuOp
from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.formats.vela_blob import VelaBlob
from ethos_hil.lowering.map.delegate_map import Partition, build_map
from ethos_hil.lowering.oracle.reference import computed_tensors, tensor_values
from ethos_hil.lowering.testing.programs.catalogue import PROGRAMS
from ethos_hil.lowering.vela.compiler import DEBUG_FLAGS, flags, run_vela
from ethos_hil.lowering.vela.memory_mode import MemoryMode

# Program, NPU, and what is special about where its tensors lie.
CASES = [
    ("MobileNetV2", "ethos-u65-256"),  # rolling buffers: stripes of a cascade over each other
    pytest.param(("MobileNetV2", "ethos-u85-512"), marks=pytest.mark.proof),
    ("chain with a large map", "ethos-u65-256"),
    ("depthwise multiplier 2", "ethos-u55-128"),  # a named tensor in another order of channels
    ("matmul", "ethos-u55-128"),  # products in memory within one row of the map
    ("int8 select by comparison", "ethos-u85-256"),  # truth values
    ("transformer", "ethos-u55-64"),
    ("transformer", "ethos-u85-256"),
]


@dataclass(frozen=True)
class Case:
    """A compiled program and the right values of its tensors."""

    npu: str
    graph: TosaGraph
    blob: VelaBlob
    rows: tuple[NpuOp, ...]
    inputs: list[bytes]
    expected: dict[str, np.ndarray]

    def replay(self) -> module.Replay:
        return replay(Npu(EthosU.parse(self.npu)), self.blob, self.inputs, self.rows, self.expected)


def test_inputs_are_as_many_and_as_large_as_the_delegate_says() -> None:
    program, npu = PROGRAMS["matmul"], EthosU.parse("ethos-u55-128")
    blob = run_vela(program.tosa, flags(npu, MemoryMode.default(npu))).parsed
    right = [bytes(place.size) for place in blob.inputs]
    for wrong in ([*right[:-1], right[-1] + b"0"], [*right[:-1], right[-1][:-1]], right[:-1], [*right, b""]):
        with pytest.raises(ValueError, match=r"bytes was given|zip"):
            run_delegate(Npu(EthosU.parse(str(npu))), blob, wrong)


@pytest.fixture(scope="module", params=CASES, ids=" on ".join)
def case(request: pytest.FixtureRequest) -> Case:
    name, npu = request.param
    program, place = PROGRAMS[name], EthosU.parse(npu)
    output = run_vela(program.tosa, [*flags(place, MemoryMode.default(place)), *DEBUG_FLAGS])
    graph = TosaGraph.parse(program.tosa)
    regions = TosaGraph.regions(program.tosa)
    rows = build_map(regions, output.database, output.parsed.command_stream, Partition({}, {}, {}), first_id=0)
    _, inputs = program.input_sets()[0]
    arrays = [np.ascontiguousarray(array) for array in inputs]
    written = {row.tensor for row in rows}
    expected = tensor_values(program.tosa, arrays, [name for name in computed_tensors(graph) if name in written])
    return Case(npu, graph, output.parsed, rows, [array.tobytes() for array in arrays], dict(expected))


def test_every_tensor_that_has_a_name_is_found_and_equal(case: Case) -> None:
    result = case.replay()
    assert result.difference is None
    for tensor, data in zip(case.graph.outputs, result.outputs, strict=True):
        expected = case.expected[tensor.name]
        assert np.array_equal(elements_of(data, expected.dtype), expected.ravel())
    results = {row.operator: row.tensor for row in case.rows}
    for number in result.unchecked:
        row = case.rows[number]
        # Names that the compiler invented, and values that are not yet the result of their operator.
        assert row.tensor not in case.graph.tensors or results[row.operator] != row.tensor, row


def test_whichever_operation_is_broken_is_named(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows of each program, one by one: change the last element that the last operation of the row stores."""
    unchecked = case.replay().unchecked
    judged = [number for number in range(len(case.rows)) if number not in unchecked]
    for number in judged[:: max(1, len(judged) // 5)]:
        row = case.rows[number]
        monkeypatch.setattr(module, "run_delegate", breaking(row.end_offset))
        difference = case.replay().difference
        assert difference is not None
        assert case.rows[difference.row].tensor == row.tensor
        assert difference.row == number
        assert difference.mismatches == 1
        assert case.expected[row.tensor][difference.index] == difference.expected != difference.found


def stripe(row: int, *shape: int, split: int | None = None, copied: bool = False) -> module._Write:
    """What an operation wrote of a tensor that passes through a small buffer: all at one address."""
    height, width, depth = shape
    tiles = (width if split is None else split, height, height)
    places = (0, height, width, depth, Layout.NHWC, 8, True, 0, (0, 0, 0, 0), width * depth, depth, 1)
    ofm = FeatureMap(*places, tiles)
    values = np.full(height * width * depth, row, np.uint8)
    return module._Write(row, np.arange(values.size), values, None if copied else ofm)


def test_stripes_are_a_tensor_only_where_they_are_all_of_its_rows() -> None:
    """Else right values would be compared with those of other places, and a right operation be called wrong."""
    tensor = np.zeros((1, 4, 3, 2), np.int8)
    parts = module._assemble_rows([stripe(5, 3, 3, 2), stripe(7, 1, 3, 2)], tensor)
    assert parts is not None
    for part in parts:  # the values here are the operations' numbers
        assert part.tolist() == [5] * 18 + [7] * 6
    for writes in (
        [stripe(5, 3, 3, 2)],
        [stripe(5, 3, 3, 2), stripe(7, 2, 3, 2)],
        [stripe(5, 4, 3, 1), stripe(7, 4, 3, 1)],
        [stripe(5, 4, 2, 2), stripe(7, 4, 1, 2)],
        [stripe(5, 3, 3, 2), stripe(7, 1, 3, 2, split=2)],
        [stripe(5, 3, 3, 2), stripe(7, 1, 3, 2, copied=True)],
    ):
        assert module._assemble_rows(writes, tensor) is None


def bricks(row: int, at: int, strides: tuple[int, int, int], *, copied: bool = False) -> module._Write:
    """What an operation wrote of a tensor in bricks: two columns of 16 channels from an address on."""
    ofm = FeatureMap(0, 1, 2, 16, Layout.BRICKS, 8, True, 0, (at, 0, 0, 0), *strides, (2, 1, 1))
    return module._Write(row, np.arange(at, at + 32), np.full(32, row, np.uint8), None if copied else ofm)


def test_bricks_are_put_together_only_where_all_of_them_lie_alike() -> None:
    """Rows of one column after the other, whichever operation wrote them first; else the tensor is not judged."""
    parts = module._assemble([bricks(5, 32, (32, 16, 32)), bricks(7, 0, (32, 16, 32))], 64)
    assert parts is not None
    assert [part.tolist() for part in parts] == [[7] * 32 + [5] * 32] * 2
    alike = bricks(5, 0, (32, 16, 32))
    for other in (
        bricks(7, 32, (64, 16, 64)),
        bricks(7, 32, (32, 16, 32), copied=True),
        bricks(7, 32, (64, 16, 64), copied=True),
    ):
        assert module._assemble([alike, other], 64) is None
    for strides in ((32, 0, 32), (32, 64, 32), (16, 16, 32)):
        with np.errstate(all="raise"):
            assert module._assemble([bricks(5, 0, strides), bricks(7, 32, strides)], 64) is None


def breaking(offset: int) -> Callable[..., DelegateResult]:
    """Run a delegate as `run_delegate` does, but change the result of the operation at `offset`."""

    def run(npu: Npu, blob: VelaBlob, inputs: Sequence[bytes], observe: Observer) -> DelegateResult:
        def broken(op: Op, memory: RegionMemory) -> None:
            if op.offset == offset:
                if isinstance(op, Dma):
                    (place,) = [access for access in op.accesses if access.write]
                    memory[place.region][place.end - 1] ^= 0xFF
                else:
                    changed = np.array(op.ofm.load(memory))
                    changed.flat[-1] = 0 if changed.flat[-1] else -1
                    op.ofm.store(memory, changed)
            observe(op, memory)

        return run_delegate(npu, blob, inputs, broken)

    return run
