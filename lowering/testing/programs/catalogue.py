"""Every program of the conformance run: every operator that ExecuTorch's Arm backend can hand to Vela, alone and where
scheduling matters, and whole networks.
"""

from __future__ import annotations

from ethos_hil.lowering.testing.programs.arithmetic import ARITHMETIC
from ethos_hil.lowering.testing.programs.convolutions import CONVOLUTIONS
from ethos_hil.lowering.testing.programs.layouts import LAYOUTS
from ethos_hil.lowering.testing.programs.networks import NETWORKS
from ethos_hil.lowering.testing.programs.pools import POOLS
from ethos_hil.lowering.testing.programs.scales import SCALES
from ethos_hil.lowering.testing.programs.schedules import SCHEDULES
from ethos_hil.lowering.testing.tosa_program import TosaProgram

OPERATORS: dict[str, TosaProgram] = {}
for _catalogue in (CONVOLUTIONS, POOLS, ARITHMETIC, SCALES, LAYOUTS, SCHEDULES):
    for _name, _program in _catalogue.items():
        if _name in OPERATORS:
            raise ValueError(f"two programs are called {_name!r}")
        OPERATORS[_name] = _program


# Networks first: they take longest, and should not be what the last worker is busy with alone.
PROGRAMS: dict[str, TosaProgram] = {**NETWORKS, **OPERATORS}
