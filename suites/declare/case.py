"""What a test says of itself: an operator, its cases, and where each is to be computed.

Declarations are data. They import no torch, so that a suite of hundreds of tests is collected in a moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from ethos_hil.lowering.scheme import Scheme
from ethos_hil.results.verdict import FailureKind
from ethos_hil.suites.declare.suffix import SUFFIXES

if TYPE_CHECKING:
    from ethos_hil.results.record import Failure

PROFILES = SUFFIXES
_NONE: Mapping[str, Any] = MappingProxyType({})
_T = TypeVar("_T")


@dataclass(frozen=True)
class Input:
    """An input tensor, filled from the case's own seed.

    Attributes:
        shape: logical, [N, C, H, W] for images.
        dtype: "float32", "int8", "int32", "int64" or "bool".
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


def i8(*shape: int, low: int = -128, high: int = 127) -> Input:
    """A tensor of `shape` that is quantised already."""
    return Input(shape, "int8", low, high)


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
class TorchCall:
    """A function of torch, by name."""

    name: str
    options: Mapping[str, Any]


def call(name: str, **options: Any) -> TorchCall:
    """torch's function `name` ("erf", "nn.functional.gelu") of the inputs, with these options."""
    return TorchCall(name, MappingProxyType(options))


@dataclass(frozen=True)
class Defect:
    """A defect of something upstream, and what it does today: the test fails when it does anything else.

    Attributes:
        what: the defect, in a sentence.
        kind: of the failure, "mismatch" or "compile" for example.
        says: a part of the failure's message.
        link: an issue of upstream's, or where this repository describes it.
    """

    what: str
    kind: FailureKind
    says: str
    link: str

    def tells(self, failure: Failure) -> bool:
        """Whether the failure is the one it leads to."""
        return failure.kind == self.kind and self.says in failure.message


Forward = Callable[..., Any] | Layer | TorchCall | tuple[Layer, ...]


@dataclass(frozen=True)
class Case:
    """One module with one set of inputs. The mappings go by a profile's name.

    Attributes:
        name: of the case, unique within its operator: part of the tests' names.
        forward: a function of tensors, or a layer, or several in a row. Torch is imported when it is called, so a
            function uses the methods of tensors, or imports torch itself.
        inputs: its arguments.
        scheme: how it is quantised.
        on_cpu: why it is left to the CPU. It is asserted that nothing is delegated, and that the answer is right.
        beside: the edge operators that are delegated all the same where it is left to the CPU: all of them.
        leaves: the kernels that are left to the CPU, each with the reason. None but these, quantise and dequantise may
            be.
        lacks: the kernels that the firmware needs for it and has not. It is asserted that it misses just these.
        defects: what is wrong upstream.
    """

    name: str
    forward: Forward
    inputs: tuple[Input, ...]
    scheme: Scheme = "a8w8"
    on_cpu: Mapping[str, str] = field(default_factory=dict)
    beside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    leaves: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    lacks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    defects: Mapping[str, Defect] = field(default_factory=dict)

    @property
    def profiles(self) -> tuple[str, ...]:
        """That it is tested in: all, but MI for another quantisation, for nothing is quantised there."""
        return PROFILES if self.scheme == "a8w8" else PROFILES[1:]


def case(
    name: str,
    forward: Forward,
    *inputs: Input,
    scheme: Scheme = "a8w8",
    on_cpu: Mapping[str, str] = _NONE,
    beside: Mapping[str, tuple[str, ...]] = _NONE,
    leaves: Mapping[str, Mapping[str, str]] = _NONE,
    lacks: Mapping[str, tuple[str, ...]] = _NONE,
    defects: Mapping[str, Defect] = _NONE,
) -> Case:
    """See `Case`."""
    return Case(name, forward, inputs, scheme, on_cpu, beside, leaves, lacks, defects)


@dataclass(frozen=True)
class Operator:
    """An operator and its cases: each gives one test per profile, `test_<operator>_<case>_<profile>`.

    Attributes:
        name: as people call it.
        aten: the edge operators (aten's name and overload) that must be delegated, of those in upstream's lists of what
            TOSA can express; in the quantised profiles too, unless `aten_int` says otherwise: there upstream replaces
            some before they are quantised.
        cases: at least one.
        fp, int: the TOSA operators that must be in the program that is delegated, in profile MI and in all others.
        aten_int: see `aten`.
        on_cpu, beside, leaves, lacks, defects: as a case's, for all cases; a case's own entry comes first.
    """

    name: str
    aten: tuple[str, ...]
    cases: tuple[Case, ...]
    fp: tuple[str, ...] = ()
    int: tuple[str, ...] = ()
    aten_int: tuple[str, ...] | None = None
    on_cpu: Mapping[str, str] = field(default_factory=dict)
    beside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    leaves: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    lacks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    defects: Mapping[str, Defect] = field(default_factory=dict)

    def aten_in(self, profile: str) -> tuple[str, ...]:
        """The edge operators that must be delegated in a profile."""
        return self.aten if profile == "MI" or self.aten_int is None else self.aten_int

    def tosa_in(self, profile: str) -> tuple[str, ...]:
        """The TOSA operators that must be in what is delegated in a profile."""
        return self.fp if profile == "MI" else self.int


def u55(entry: _T) -> dict[str, _T]:
    """An entry for Ethos-U55, and for Ethos-U65: upstream compiles both from the TOSA that the U55 can do."""
    return {"U55_BI": entry, "U65_BI": entry}


def npus(entry: _T) -> dict[str, _T]:
    """An entry for all NPUs."""
    return {**u55(entry), "U85_BI": entry}


def integer(entry: _T) -> dict[str, _T]:
    """An entry for all profiles that are quantised."""
    return {"BI": entry, **npus(entry)}


def everywhere(entry: _T) -> dict[str, _T]:
    """An entry for all profiles."""
    return {"MI": entry, **integer(entry)}
