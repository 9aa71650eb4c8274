"""Pools that differ from the operation before only in where their maps begin.

On Ethos-U55 the compiler moves and transposes data with one pool per slice, up to thousands of them. What a pool is
follows from the registers that decoding it reads, so if of those only base addresses were written since, it is the
pool before at other addresses: a third of the time of decoding it.
"""

from __future__ import annotations

from ethos_hil.harness.npu.isa.feature_map import FeatureMap
from ethos_hil.harness.npu.isa.operations import Access, Op, Pool
from ethos_hil.harness.npu.isa.stream import RegisterFile


class Slices:
    """Remembers the last operation, and which registers it depends on."""

    def __init__(self, registers: RegisterFile) -> None:
        self.registers = registers
        self._last: tuple[int, int, Pool] | None = None
        self._needs: set[str] = set()

    def forget(self) -> None:
        """The next operation has to be decoded."""
        self._last = None
        self._begin()

    def again(self, code: int, parameter: int) -> Op | None:
        """The operation with this code, or None if it has to be decoded."""
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
        """`op` was decoded, and `again` asked before; its register reads were noted since."""
        movable = (
            isinstance(op, Pool)
            and [access.write for access in op.accesses] == [False, True]
            and op.channel_scales is None
            and op.ifm.one_tile
            and op.ofm.one_tile
        )
        self._last = (code, parameter, op) if movable and isinstance(op, Pool) else None
        self._needs = set(self.registers.read)

    def _begin(self) -> None:
        self.registers.written.clear()
        self.registers.read.clear()


def _moved(source: FeatureMap, access: Access, registers: RegisterFile) -> tuple[FeatureMap, Access]:
    """A map of one tile, and its access, from where its base register now says."""
    base = registers.get(access.register)
    by = base - source.bases[0]
    if not by:
        return source, access
    moved = source.moved(base)
    return moved, Access(access.register, access.region, access.begin + by, access.end + by, access.write, access.size)
