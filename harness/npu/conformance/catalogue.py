"""Every program of the conformance run."""

from __future__ import annotations

from harness.npu.conformance.networks import NETWORKS
from harness.npu.conformance.operators import OPERATORS
from harness.npu.conformance.program import Program

# Networks first: they take longest, and should not be what the last worker is busy with alone.
PROGRAMS: dict[str, Program] = {**NETWORKS, **OPERATORS}
