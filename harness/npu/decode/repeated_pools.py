"""Pools that differ from the operation before only in where their maps begin.

On Ethos-U55 the compiler moves and transposes data with one pool per slice, up to thousands of them. The registers that
decoding reads define a pool. So if only base addresses among them were written since, the next pool is the previous one
at other addresses; copying it takes a third of the time of decoding.
"""

from __future__ import annotations

from ethos_hil.harness.npu.isa.feature_map import FeatureMap
from ethos_hil.harness.npu.isa.operations import Access, Op, Pool
from ethos_hil.harness.npu.isa.stream import RegisterFile


class PoolRepeater:
    """The last pool decoded, and the registers that it depends on."""

    def __init__(self, registers: RegisterFile) -> None:
        self.registers = registers
        self._last: tuple[int, int, Pool] | None = None
        self._needs: set[str] = set()

    def forget(self) -> None:
        """Forget the last pool, so that the next operation is decoded."""
        self._last = None
        self._begin()

    def repeat(self, code: int, parameter: int) -> Op | None:
        """Return the last pool at its new addresses, or None if the operation must be decoded."""
        registers = self.registers
        if self._last is None or self._last[:2] != (code, parameter):
            self._begin()
            return None
        last = self._last[2]
        sources, targets = last.accesses
        changed = registers.written & self._needs
        if not changed <= {sources.register, targets.register}:
            self._begin()
            return None
        ifm, source = _moved(last.ifm, sources, registers)
        ofm, target = _moved(last.ofm, targets, registers)
        op = last.moved(registers.offset, ifm, ofm, (source, target))
        registers.op = op.name
        registers.written.clear()
        self._last = (code, parameter, op)
        return op

    def remember(self, code: int, parameter: int, op: Op) -> None:
        """Remember `op`, just decoded after `repeat` returned None, with the registers read since then."""
        movable = (
            isinstance(op, Pool)
            and [access.write for access in op.accesses] == [False, True]
            and op.channel_scales is None
            and op.start is None
            and op.ifm.one_tile
            and op.ofm.one_tile
        )
        self._last = (code, parameter, op) if movable and isinstance(op, Pool) else None
        self._needs = set(self.registers.read)

    def _begin(self) -> None:
        self.registers.written.clear()
        self.registers.read.clear()


def _moved(source: FeatureMap, access: Access, registers: RegisterFile) -> tuple[FeatureMap, Access]:
    """Return a map of one tile, and its access, at the address in its base register."""
    base = registers.get(access.register)
    by = base - source.bases[0]
    if not by:
        return source, access
    moved = source.moved(base)
    return moved, Access(access.register, access.region, access.begin + by, access.end + by, access.write, access.size)
