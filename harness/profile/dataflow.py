"""Which row reads what which row has written, and how long each byte of the NPU's working memory is in use.

Both follow from the command stream alone, byte by byte: an operation's maps say exactly which bytes it reads and
writes. Names of tensors would not do: Vela makes up new ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ethos_hil.base.inference_profile import Buffer
from ethos_hil.harness.npu.isa.feature_map import FeatureMap, Layout, RegionMemory
from ethos_hil.harness.npu.isa.operations import Dma, Elementwise, MatMul, Op
from ethos_hil.harness.profile.compiled import CompiledDelegate
from ethos_hil.lowering.formats.vela_blob import VelaIo

CONSTANTS, ARENA = 0, 1
"""Regions of Vela's command streams. Everything but constants is working memory."""
_NOBODY = -1
"""Owner of bytes that no one has written."""
_MAPS = ("IFM", "IFM2", "OFM")
"""Registers whose accesses are those of feature maps."""


@dataclass(frozen=True)
class Link:
    """Bytes that go from one row of a delegate to another.

    Attributes:
        source: index of the row that wrote them; -1 - n for input n of the delegate.
        target: index of the row that reads them; the number of rows + n for output n.
        size: bytes.
    """

    source: int
    target: int
    size: int


@dataclass(frozen=True)
class DataFlow:
    """What `data_flow` finds in a delegate."""

    links: tuple[Link, ...]
    buffers: tuple[Buffer, ...]


@dataclass
class _Usage:
    """Who wrote each byte of a region, when, and who read it last; by index of the row."""

    owner: npt.NDArray[np.int32]
    born: npt.NDArray[np.int32]
    last: npt.NDArray[np.int32]
    mask: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, size: int) -> _Usage:
        owner, born, last = (np.full(size, _NOBODY, np.int32) for _ in range(3))
        return cls(owner, born, last, np.zeros(size, np.uint8))


@dataclass
class _Walk:
    """Goes through a program's operations in order."""

    regions: Mapping[int, _Usage]
    inputs: int
    links: dict[tuple[int, int], int] = field(default_factory=dict)
    lives: dict[tuple[int, int, int, int], int] = field(default_factory=dict)
    chains: dict[int, int] = field(default_factory=dict)

    def read(self, region: int, bytes_: npt.NDArray[Any] | slice, row: int) -> None:
        memory = self.regions[region]
        for owner, count in _count(memory.owner[bytes_]):
            if owner != _NOBODY and owner != row:
                self.links[owner, row] = self.links.get((owner, row), 0) + count
        memory.last[bytes_] = row

    def write(self, region: int, bytes_: npt.NDArray[Any] | slice, row: int) -> None:
        self.end(region, bytes_)
        memory = self.regions[region]
        memory.owner[bytes_] = memory.born[bytes_] = memory.last[bytes_] = row

    def end(self, region: int, bytes_: npt.NDArray[Any] | slice) -> None:
        """Let bytes no longer be in use, and note how long they were."""
        memory = self.regions[region]
        owner, born, last = (values[bytes_].astype(np.int64) for values in (memory.owner, memory.born, memory.last))
        kept = owner != _NOBODY
        key = ((owner[kept] + self.inputs + 1) << 42) | ((born[kept] + 1) << 21) | (last[kept] + 1)
        for packed, count in _count(key):
            life = (region, (packed >> 42) - self.inputs - 1, (packed >> 21 & 0x1FFFFF) - 1, (packed & 0x1FFFFF) - 1)
            self.lives[life] = self.lives.get(life, 0) + count


def data_flow(compiled: CompiledDelegate, instruction: int) -> DataFlow:
    """Return links and buffers of a delegate. A program with branches is followed in the order of its stream.

    Args:
        compiled: the delegate.
        instruction: that calls it.
    """
    blob = compiled.delegate.blob
    sizes = {number: max(extent.read_end, extent.write_end) for number, extent in compiled.program.extents.items()}
    ends = [io.offset + io.size for io in (*blob.inputs, *blob.outputs)]
    sizes[ARENA] = max(sizes.get(ARENA, 0), *ends, 0)
    walk = _Walk({number: _Usage.of(size) for number, size in sizes.items() if number != CONSTANTS}, len(blob.inputs))
    arena = walk.regions[ARENA]
    for number, io in enumerate(blob.inputs):
        place = _place(io)
        # Owners below -1: _NOBODY is taken.
        arena.owner[place], arena.born[place], arena.last[place] = -2 - number, 0, 0
    for row, op in compiled.operations():
        _follow(walk, op, row)
    rows = len(compiled.rows)
    for number, io in enumerate(blob.outputs):
        walk.read(ARENA, _place(io), rows + number)
        arena.last[_place(io)] = rows - 1
    for number, region in walk.regions.items():
        walk.end(number, slice(0, region.owner.size))
    links = tuple(
        Link(source + 1 if source < _NOBODY else source, target, size)
        for (source, target), size in sorted(walk.links.items(), key=lambda item: (item[0][1], item[0][0]))
    )
    buffers = tuple(
        _buffer(compiled, instruction, life, size)
        for life, size in sorted(walk.lives.items(), key=lambda item: item[0])
    )
    return DataFlow(links, buffers)


def _buffer(compiled: CompiledDelegate, instruction: int, life: tuple[int, int, int, int], size: int) -> Buffer:
    region, owner, born, last = life
    row = compiled.rows[owner] if owner >= 0 else None
    memory = compiled.memory(region)
    tensor, name = ("", "") if row is None else (row.tensor, row.id)
    return Buffer(instruction, memory, tensor, name, size, born, last)


def _follow(walk: _Walk, op: Op, row: int) -> None:
    if not isinstance(op, Dma):
        for source in _sources(op):
            if source.layout is Layout.CHAIN:
                owner = walk.chains.get(source.region, row)
                if owner != row:
                    walk.links[owner, row] = walk.links.get((owner, row), 0) + source.elements * source.size
            elif source.region in walk.regions:
                walk.read(source.region, _bytes(walk, source), row)
    for access in op.accesses:
        mapped = not isinstance(op, Dma) and access.register.split("_")[0] in _MAPS
        if access.region in walk.regions and not access.write and not mapped:
            walk.read(access.region, slice(access.begin, access.end), row)
    if isinstance(op, Dma):
        for access in op.accesses:
            if access.region in walk.regions and access.write:
                walk.write(access.region, slice(access.begin, access.end), row)
    elif op.ofm.layout is Layout.CHAIN:
        walk.chains[op.ofm.region] = row
    else:
        walk.write(op.ofm.region, _bytes(walk, op.ofm), row)


def _sources(op: Op) -> Iterator[FeatureMap]:
    assert not isinstance(op, Dma)
    if isinstance(op, Elementwise):
        yield from op.ifms
    else:
        yield op.ifm
        if isinstance(op, MatMul):
            yield op.ifm2
    start = getattr(op, "start", None)
    if start is not None:
        yield start


def _bytes(walk: _Walk, source: FeatureMap) -> npt.NDArray[Any] | slice:
    """Return the bytes of a map in its region: stores mark them, so that its own arithmetic of addresses counts."""
    begin, end = source.extent(whole_bricks=False)
    if end - begin == source.elements * source.size:
        return slice(begin, end)
    mask = walk.regions[source.region].mask
    ones = np.full(source.shape, -1, np.dtype(f"i{source.size}")).view(source.dtype)
    source.store(RegionMemory({source.region: mask}), ones)
    addresses = np.flatnonzero(mask[begin:end]) + begin
    mask[begin:end] = 0
    return addresses


def _place(io: VelaIo) -> slice:
    return slice(io.offset, io.offset + io.size)


def _count(values: npt.NDArray[Any]) -> Sequence[tuple[int, int]]:
    distinct, counts = np.unique(values, return_counts=True)
    return list(zip(distinct.tolist(), counts.tolist(), strict=True))
