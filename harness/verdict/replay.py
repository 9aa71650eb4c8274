"""A replay of a delegate on the functional NPU that compares every feature map it writes with the right values.

The compiler's debug database names the tensor that an operation writes, but not which part of it: an operation may
write a stripe, a slice of the depth, a part of a concatenation, a transposed piece, or the bytes of 32-bit elements one
by one. So the bytes that all operations write for a tensor are collected by address. In the order of their addresses
they are the tensor in its own order, whichever operation wrote them (in bricks: in the order of the coordinates behind
the addresses). A tensor that passes through a buffer smaller than itself comes in stripes of whole rows, one after the
other. A tensor is not judged if one of these ways does not find all its bytes.

Values that an operator's operations leave for others of the same operator are not judged either, even if they have a
tensor's name. For example, Vela 5.1 computes a depthwise convolution with a multiplier in another order of channels,
and sorts them afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.harness.npu import Npu
from ethos_hil.harness.npu.isa.feature_map import BRICK, FeatureMap, Layout, RegionMemory
from ethos_hil.harness.npu.isa.operations import Dma, Op
from ethos_hil.harness.verdict.run_delegate import run_delegate
from ethos_hil.lowering.artifact import NpuOp, row_at
from ethos_hil.lowering.formats.vela_blob import VelaBlob

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Difference:
    """A tensor with wrong values.

    Attributes:
        row: index in the delegate's map of the first operation that wrote a wrong element.
        tensor: the tensor's name.
        index: index of the first wrong element among those that this operation wrote.
        expected, found: the values at this index.
        mismatches: number of wrong elements in the whole tensor.
    """

    row: int
    tensor: str
    index: tuple[int, ...]
    expected: int
    found: int
    mismatches: int


@dataclass(frozen=True)
class Replay:
    """The result of a replay.

    Attributes:
        outputs: raw bytes of each output.
        difference: the first in the order of execution, or None.
        unchecked: indices, in order, of the map's rows whose tensor was not judged; up to the difference, if any.
    """

    outputs: tuple[bytes, ...]
    difference: Difference | None
    unchecked: tuple[int, ...]


def replay(
    npu: Npu, blob: VelaBlob, inputs: Sequence[bytes], rows: Sequence[NpuOp], expected: Mapping[str, np.ndarray]
) -> Replay:
    """Run a delegate and compare each tensor as soon as it is complete.

    Args:
        npu: of the configuration the blob was compiled for.
        blob: the delegate.
        inputs: raw bytes of each input.
        rows: the delegate's map.
        expected: the right values, by tensor name, in the shapes and types of the TOSA program.

    Raises:
        Fault: the command stream is not one the NPU can execute.
    """
    watch = _Watch(npu.decode(blob.command_stream).ops, rows, expected)
    result = run_delegate(npu, blob, inputs, watch.observe)
    first = min(watch.differences, key=lambda difference: difference.row, default=None)
    unchecked = tuple(row for row in watch.unchecked_rows() if first is None or row < first.row)
    return Replay(result.outputs, first, unchecked)


@dataclass(frozen=True)
class _Write:
    """Bytes that one operation wrote: their addresses and values, and their feature map (None for a copy)."""

    row: int
    addresses: Numbers
    values: Bytes
    ofm: FeatureMap | None


class _Watch:
    """Watches operations finish, in order."""

    def __init__(self, ops: Sequence[Op], rows: Sequence[NpuOp], expected: Mapping[str, np.ndarray]) -> None:
        self._rows = rows
        self._expected = expected
        self.differences: list[Difference] = []
        self._checked: set[str] = set()
        self._writes: dict[str, list[_Write]] = {}
        self._row = {op.offset: row_at(rows, op.offset) for op in ops}
        self._results = {row.operator: row.tensor for row in rows}
        # A row ends with the operation that writes its tensor. Earlier stores prepare it: DMA brings weights and
        # tables, and a matrix product on an Ethos-U55 multiplies into memory and then sums from there.
        self._kinds = {self._row[op.offset]: _kind(op) for op in ops}
        self._last = {
            row.tensor: op.offset
            for op in ops
            if (row := self._writer(op)) is not None and row.tensor in expected
        }  # fmt: skip

    def _writer(self, op: Op) -> NpuOp | None:
        """Return the row whose tensor `op` writes, or None if that tensor is not judged."""
        number = self._row[op.offset]
        if number is None or _kind(op) != self._kinds[number]:
            return None
        row = self._rows[number]
        return row if row.operator < 0 or self._results[row.operator] == row.tensor else None

    def observe(self, op: Op, memory: RegionMemory) -> None:
        """Take the bytes that `op` wrote, and judge the tensor if it is now complete."""
        number, row = self._row[op.offset], self._writer(op)
        if number is None or row is None or row.tensor not in self._last:
            return
        writes = self._writes.setdefault(row.tensor, [])
        writes.append(_write_of(number, op, memory))
        if op.offset == self._last[row.tensor]:
            self._judge(row.tensor, writes)
            del self._writes[row.tensor]

    def unchecked_rows(self) -> list[int]:
        """Return the rows whose tensor was not judged."""
        return [number for number, row in enumerate(self._rows) if row.tensor not in self._checked]

    def _judge(self, name: str, writes: Sequence[_Write]) -> None:
        expected = np.ascontiguousarray(self._expected[name])
        content = _assemble(writes, expected.nbytes) or _assemble_rows(writes, expected)
        if content is None:
            return
        self._checked.add(name)
        raw, writers = content
        values = elements_of(raw, expected.dtype)
        elements = np.flatnonzero(values != expected.ravel())
        if not elements.size:
            return
        of_element = writers.reshape(-1, expected.itemsize)[elements].min(axis=1)
        at = int(elements[int(np.argmax(of_element == of_element.min()))])
        self.differences.append(
            Difference(
                row=int(of_element.min()),
                tensor=name,
                index=tuple(int(axis) for axis in np.unravel_index(at, expected.shape)),
                expected=int(expected.ravel()[at]),
                found=int(values[at]),
                mismatches=int(elements.size),
            )
        )


def elements_of(raw: Bytes | bytes, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return raw bytes as elements. The NPU stores all bits of a truth value."""
    data = np.frombuffer(raw, np.uint8)
    return data != 0 if dtype == np.bool_ else data.view(dtype)


def _kind(op: Op) -> tuple[object, ...]:
    """Return how an operation stores its result, as a key to compare."""
    if isinstance(op, Dma):
        return ("copy",)
    ofm = op.ofm
    return (ofm.layout, ofm.bits, ofm.stride_y, ofm.stride_x, ofm.stride_c)


def _write_of(row: int, op: Op, memory: RegionMemory) -> _Write:
    if isinstance(op, Dma):
        places = [access for access in op.accesses if access.write]
        addresses = np.concatenate([np.arange(place.begin, place.end) for place in places])
        return _Write(row, addresses, memory[places[0].region][addresses], None)
    if op.ofm.layout is Layout.CHAIN:
        values = np.ascontiguousarray(op.ofm.load(memory)).view(np.uint8).ravel()
        return _Write(row, np.arange(values.size), values, None)
    addresses = _addresses(op.ofm)
    return _Write(row, addresses, memory[op.ofm.region][addresses], op.ofm)


def _addresses(ofm: FeatureMap) -> Numbers:
    """Return the addresses of all bytes of a map, row by row, column by column, channel by channel."""
    channels = np.arange(ofm.stored_shape[2])
    if ofm.layout is Layout.BRICKS:
        depth = channels // BRICK * ofm.stride_c + channels % BRICK * ofm.size
    else:
        depth = channels * ofm.size
    in_column = (depth[:, None] + np.arange(ofm.size)).ravel()
    addresses = []
    for tile in ofm.tiles():
        y = np.arange(tile.y_end - tile.y)[:, None, None] * ofm.stride_y
        x = np.arange(tile.x_end - tile.x)[:, None] * ofm.stride_x
        addresses.append((tile.base + y + x + in_column).ravel())
    return np.concatenate(addresses)


def _assemble(writes: Sequence[_Write], size: int) -> tuple[Bytes, Numbers] | None:
    """Return the tensor's bytes in its own order and the row that wrote each; None unless there are `size` of them."""
    places = _places(writes)
    if places is None:
        return None
    values = np.concatenate([write.values for write in writes])
    writers = np.repeat([write.row for write in writes], [write.values.size for write in writes])
    order = np.argsort(places, kind="stable")
    order = order[np.append(np.diff(places[order]) > 0, True)]  # the last write to an address counts
    return (values[order], writers[order]) if order.size == size else None


def _assemble_rows(writes: Sequence[_Write], expected: np.ndarray) -> tuple[Bytes, Numbers] | None:
    """Do the same as `_assemble` for operations that write whole rows, in order, over earlier rows."""
    maps = [write.ofm for write in writes if write.ofm is not None]
    row = expected.shape[-2:]
    if len(maps) != len(writes) or any(ofm.stored_shape[1:] != row or ofm.split[0] < row[0] for ofm in maps):
        return None
    if sum(write.values.size for write in writes) != expected.nbytes:
        return None
    values = np.concatenate([write.values for write in writes])
    return values, np.repeat([write.row for write in writes], [write.values.size for write in writes])


def _places(writes: Sequence[_Write]) -> Numbers | None:
    """Return for each byte a number that grows with the tensor's own order; None where the writes do not combine."""
    addresses = np.concatenate([write.addresses for write in writes])
    maps = [write.ofm for write in writes if write.ofm is not None]
    kinds = {(ofm.layout, ofm.size, ofm.stride_y, ofm.stride_x, ofm.stride_c) for ofm in maps}
    if not any(ofm.layout is Layout.BRICKS for ofm in maps):
        return addresses
    if len(kinds) != 1 or len(maps) != len(writes):
        return None
    ((_, size, stride_y, stride_x, stride_c),) = kinds
    if not 0 < stride_x <= stride_c <= stride_y:
        return None
    y, rest = np.divmod(addresses - addresses.min(), stride_y)
    brick, rest = np.divmod(rest, stride_c)
    x, lane = np.divmod(rest, stride_x)
    bricks, columns = int(brick.max()) + 1, int(x.max()) + 1
    return ((y * columns + x) * bricks + brick) * BRICK * size + lane
