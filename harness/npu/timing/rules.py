"""How well each rule of the timing model is validated.

A rule is what decides an operation's cycles (`Cost.rule`): a part of the NPU, or of the way to memory, on one family.
Its errors are those of the published FVP runs in which operations of that rule take a quarter of the modelled cycles or
more: networks in their memories, and single operations. So a rule answers for others' errors too; totals tell no more.
`python -m ethos_hil.suites.lab.published --rules` works the numbers out, and a test compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ethos_hil.results.ledger.rule_facts import RuleFacts

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
_ERRORS: Mapping[str, tuple[int, float, float]] = {
    "u55 copy": (1, 0.012, 0.012),
    "u55 depth-first": (9, 0.004, -0.028),
    "u55 depthwise": (7, 0.009, -0.056),
    "u55 output": (9, 0.022, -0.077),
    "u55 part-kernel": (5, 0.004, -0.042),
    "u55 port": (9, 0.014, -0.07),
    "u65 depth-first": (2, 0.018, -0.031),
    "u65 inputs": (2, 0.038, 0.073),
    "u65 latency": (1, 0.16, -0.16),
    "u65 output": (4, 0.024, -0.041),
    "u65 part-kernel": (4, 0.039, -0.114),
    "u65 port": (5, 0.072, -0.16),
    "u65 weights": (2, 0.007, 0.012),
    "u85 copy": (1, 0.184, 0.184),
    "u85 depth-first": (14, 0.025, -0.404),
    "u85 depthwise": (19, 0.078, 0.529),
    "u85 inputs": (10, 0.1, -0.157),
    "u85 latency": (26, 0.128, 0.212),
    "u85 output": (10, 0.049, 0.105),
    "u85 part-kernel": (48, 0.103, -0.448),
    "u85 port": (9, 0.091, 0.212),
    "u85 scales": (23, 0.05, -0.226),
    "u85 weights": (38, 0.09, -0.311),
    "u85 writes": (32, 0.094, -0.265),
}
"""By id: published runs, median size of their errors, the worst error."""


def _facts(name: str, family: str) -> RuleFacts:
    title, source = _TEXTS[name]
    if f"{family} {name}" not in _ERRORS:
        return RuleFacts(title, source)
    runs, median, worst = _ERRORS[f"{family} {name}"]
    return RuleFacts(title, source, f"{runs} published FVP run{'s' if runs > 1 else ''}", median, worst)


RULES: Mapping[str, RuleFacts] = MappingProxyType(
    {f"{family} {name}": _facts(name, family) for family in ("u55", "u65", "u85") for name in _TEXTS}
)
"""The facts of each rule, by its id: "u55 depthwise"."""
