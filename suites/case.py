"""What a test says of itself: an operator, its cases, and where each is to be computed.

Declarations are data. They import no torch, so that a suite of hundreds of tests is collected in a moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from lowering.quantize import Scheme


@dataclass(frozen=True)
class Input:
    """An input tensor, filled from the case's own seed.

    Attributes:
        shape: logical, [N, C, H, W] for images.
        dtype: "float32", "int32", "int64" or "bool".
        low, high: its values lie between them, evenly distributed; integers include both.
        channels_last: its memory is in the order [N, H, W, C].
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    low: float = -1.0
    high: float = 1.0
    channels_last: bool = False


def f32(*shape: int, low: float = -1.0, high: float = 1.0, channels_last: bool = False) -> Input:
    """A float tensor of `shape`."""
    return Input(shape, "float32", low, high, channels_last)


def i64(*shape: int, low: int, high: int) -> Input:
    """An index tensor of `shape`."""
    return Input(shape, "int64", low, high)


def i32(*shape: int, low: int = -128, high: int = 127) -> Input:
    """An integer tensor of `shape`."""
    return Input(shape, "int32", low, high)


def boolean(*shape: int) -> Input:
    """A tensor of truth values."""
    return Input(shape, "bool", 0, 1)


@dataclass(frozen=True)
class Layer:
    """A module of torch.nn, by name."""

    name: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]


def layer(name: str, *arguments: Any, **options: Any) -> Layer:
    """torch.nn's module `name`, made with these arguments when it is needed."""
    return Layer(name, arguments, MappingProxyType(options))


@dataclass(frozen=True)
class Case:
    """One module with one set of inputs.

    Attributes:
        name: of the case, unique within its operator: part of the tests' names.
        forward: a function of tensors, or a layer, or several in a row. Torch is imported when it is called, so a
            function uses the methods of tensors, or imports torch itself.
        inputs: its arguments.
        scheme: how it is quantised.
        on_cpu: why, by profile name, nothing of it is delegated there. It is asserted that nothing is.
    """

    name: str
    forward: Callable[..., Any] | Layer | tuple[Layer, ...]
    inputs: tuple[Input, ...]
    scheme: Scheme = "a8w8"
    on_cpu: Mapping[str, str] = field(default_factory=dict)


def case(
    name: str,
    forward: Callable[..., Any] | Layer | tuple[Layer, ...],
    *inputs: Input,
    scheme: Scheme = "a8w8",
    on_cpu: Mapping[str, str] = MappingProxyType({}),
) -> Case:
    """See `Case`."""
    return Case(name, forward, inputs, scheme, on_cpu)


@dataclass(frozen=True)
class Operator:
    """An operator and its cases: each gives one test per profile, `test_<operator>_<case>_<profile>`.

    Attributes:
        name: as people call it.
        aten: the aten operators (name.overload) that the cases call, for the table of coverage.
        fp, int: the TOSA operators that must be in the program that is delegated, in profile MI and in all others.
        cases: at least one.
        profiles: of the tests; by default all.
        on_cpu: as a case's, for all cases.
    """

    name: str
    aten: tuple[str, ...]
    cases: tuple[Case, ...]
    fp: tuple[str, ...] = ()
    int: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ("MI", "BI", "U55_BI", "U65_BI", "U85_BI")
    on_cpu: Mapping[str, str] = field(default_factory=dict)
