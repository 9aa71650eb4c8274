"""The id of the timing model, whose cycles may be compared; and how well each of its rules is validated.

A rule is what decides an operation's cycles (`Cost.rule`): a part of the NPU, or of the way to memory, on one family.
Its errors (`Family.rule_errors`) are those of the published FVP runs in which operations of that rule take a quarter of
the modelled cycles or more: networks in their memories, and single operations. So a rule answers for others' errors
too; totals tell no more. `python -m ethos_hil.suites.lab published --rules` works the numbers out, and a test compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from ethos_hil.base import npu
from ethos_hil.base.npu.ethos_u import FAMILIES
from ethos_hil.base.npu.family import Family
from ethos_hil.lowering.cache.versions import source_digest
from ethos_hil.results.profile_view import RuleFacts


@cache
def timing_model_id() -> str:
    """Return a digest of the model's source and the NPUs' numbers. Another comment makes another id, which is too
    careful, not too little.
    """
    return source_digest(Path(__file__).parent, Path(npu.__file__).parent)[:16]


_REGOR = "Vela's estimators (regor, and npu_performance.py of the wheel)"
_FVP = f"{_REGOR}, and published FVP runs"
_BUFFERS = "regor's sizes of read buffers, and published FVP runs"
_TEXTS: Mapping[str, tuple[str, str]] = {
    "copy": ("a DMA transfer: a latency, and bytes by what can be under way", _BUFFERS),
    "depth-first": ("the MAC engine, depth first: a cycle for 8 IFM channels of each element of the kernel", _FVP),
    "part-kernel": ("the MAC engine, part-kernel: steps of a few elements, and a pause for each slice", _FVP),
    "depthwise": ("the MAC engine, depthwise", _FVP),
    "sum": ("the MAC engine, sums over channels", _REGOR),
    "pool": ("the MAC engine, pools: at least 4 cycles for each micro-block", _REGOR),
    "output": ("the output stage: cycles for each element, whole groups of channels", _FVP),
    "weights": ("weights: decoding, or what their buffer holds", _BUFFERS),
    "scales": ("scales and biases: 10 bytes a channel through a small buffer", _BUFFERS),
    "inputs": ("inputs: what their buffer holds", _BUFFERS),
    "writes": ("outputs: the writes that can be under way", "Vela's system configurations"),
    "port": ("a port: the memory's budget of bytes", "Arm's timing adapters"),
    "latency": ("latencies: no part of the NPU is busy for half of the time", "published FVP runs"),
}


def _facts(name: str, family: Family) -> RuleFacts:
    title, source = _TEXTS[name]
    if name not in family.rule_errors:
        return RuleFacts(title, source)
    runs, median, worst = family.rule_errors[name]
    return RuleFacts(title, source, f"{runs} published FVP run{'s' if runs > 1 else ''}", median, worst)


RULES: Mapping[str, RuleFacts] = MappingProxyType(
    {f"{family} {name}": _facts(name, family) for family in FAMILIES for name in _TEXTS}
)
"""The facts of each rule, by its id: "u55 depthwise"."""
