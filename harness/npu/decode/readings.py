"""What groups of registers say: precision, scales and inputs of an operation, before it is put together."""

from __future__ import annotations

from dataclasses import dataclass

from ethos_hil.harness.npu.isa.feature_map import STRAIGHT, FeatureMap, Layout
from ethos_hil.harness.npu.isa.operations import ChannelScales
from ethos_hil.harness.npu.isa.scaling import Scale


@dataclass(frozen=True, slots=True)
class Precision:
    """The contents of a feature map's precision register: element type, format, and changes on the way to memory.

    `absent`: the input is a number instead, or the output is not stored.
    """

    layout: Layout
    bits: int
    signed: bool
    axes: tuple[int, int, int] = STRAIGHT
    reverse: int | None = None
    absent: bool = False


@dataclass(frozen=True, slots=True)
class ElementwiseScales:
    """The scales of the operands, in operand order, of the result, and of LRELU's negative operand."""

    operands: tuple[Scale, Scale]
    result: Scale
    negative: Scale


@dataclass(frozen=True, slots=True)
class ElementwiseInputs:
    """The inputs of ELEMENTWISE.

    Attributes:
        sources: in operand order; numbers have their zero point subtracted already.
        bits: bits of an element.
        maps: the inputs that are feature maps, with the name of their registers.
    """

    sources: tuple[FeatureMap | int, ...]
    bits: int
    maps: tuple[tuple[str, FeatureMap], ...]


@dataclass(frozen=True, slots=True)
class PoolScaling:
    """How a pool scales, as in `Pool`.

    Attributes:
        scale: for all channels, or with `channel_scales` only the rounding of those.
        divide: whether the hardware divides by the number of valid taps first.
        channel_scales: where each channel's scale is, or None.
    """

    scale: Scale
    divide: bool = False
    channel_scales: ChannelScales | None = None
