"""Every program of the conformance run."""

from __future__ import annotations

from ethos_hil.lowering.testing.programs.networks import NETWORKS
from ethos_hil.lowering.testing.programs.operators import OPERATORS
from ethos_hil.lowering.testing.tosa_program import TosaProgram

# Networks first: they take longest, and should not be what the last worker is busy with alone.
PROGRAMS: dict[str, TosaProgram] = {**NETWORKS, **OPERATORS}
