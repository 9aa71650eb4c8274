"""A builder of small TOSA graphs, operator by operator. It takes a millisecond; lowering from PyTorch takes seconds."""

from __future__ import annotations

from ethos_hil.lowering.testing.tosa_graph.arithmetic import Arithmetic, multiplier_shift
from ethos_hil.lowering.testing.tosa_graph.control import Control
from ethos_hil.lowering.testing.tosa_graph.layout import AxisOperators
from ethos_hil.lowering.testing.tosa_graph.tensors import Array, Value
from ethos_hil.lowering.testing.tosa_graph.windows import Windows

__all__ = ["Array", "Graph", "Value", "multiplier_shift"]


class Graph(Windows, Arithmetic, AxisOperators, Control):
    """A TOSA-1.0 graph under construction; each operator's method returns its output.

    It has every integer operator that ExecuTorch 1.4.1's Arm backend emits (backends/arm/operators), and nothing of
    TOSA's floating point or block-scaled profiles.
    """
