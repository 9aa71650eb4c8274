"""The catalogue: every operator that ExecuTorch's Arm backend can hand to Vela, alone and where scheduling matters."""

from __future__ import annotations

from harness.npu.conformance.operators.arithmetic import ARITHMETIC
from harness.npu.conformance.operators.convolutions import CONVOLUTIONS
from harness.npu.conformance.operators.layouts import LAYOUTS
from harness.npu.conformance.operators.logic import LOGIC
from harness.npu.conformance.operators.pools import POOLS
from harness.npu.conformance.operators.products import PRODUCTS
from harness.npu.conformance.operators.scales import SCALES
from harness.npu.conformance.operators.schedules import SCHEDULES
from harness.npu.conformance.program import Program

OPERATORS: dict[str, Program] = {}
for _catalogue in (CONVOLUTIONS, POOLS, ARITHMETIC, LOGIC, SCALES, PRODUCTS, LAYOUTS, SCHEDULES):
    for _name, _program in _catalogue.items():
        if _name in OPERATORS:
            raise ValueError(f"two programs are called {_name!r}")
        OPERATORS[_name] = _program
