"""BRANCH: control flow of Ethos-U85.

The condition is a flag. Compiled streams set it with an operation of one element just before the branch: a comparison,
or a logical AND after one. Established with TOSA: the flag is set if that element is not zero. How the hardware derives
the flag from larger outputs is not known, so that is refused.
"""

from __future__ import annotations

from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.npu.isa.fault import Fault
from ethos_hil.harness.npu.isa.feature_map import RegionMemory
from ethos_hil.harness.npu.isa.operations import Branch, Elementwise, Op


def flag(branch: Branch, last: Op | None, memory: RegionMemory) -> bool:
    """Return whether a conditional branch after `last` is taken. Raises Fault where that is not known."""
    if not isinstance(last, Elementwise) or last.ofm.elements != 1:
        before = "nothing" if last is None else last.name
        raise Fault(
            FailureKind.UNSUPPORTED,
            branch.offset,
            branch.name,
            "BRANCH",
            branch.target,
            f"the flag after {before} is not known",
        )
    return bool(last.ofm.load(memory).any())
