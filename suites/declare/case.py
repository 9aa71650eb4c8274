"""Declarations of operator tests: an operator, its cases, and where each is computed.

Declarations are data. They import no torch, so that hundreds of tests are collected quickly. They are checked when they
are made: a name that nothing looks up would be ignored in silence.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import FAMILIES
from ethos_hil.base.npu.u55 import U55
from ethos_hil.base.options import Scheme
from ethos_hil.base.suffix import CPU_SUFFIX, SUFFIXES
from ethos_hil.base.verdict import Failure, FailureKind


def check_profiles(owner: str, attribute: str, names: Iterable[object]) -> None:
    """Check that all of `names` are profiles.

    Args:
        owner: what is declared, for the message: "operator relu".
        attribute: the attribute of the declaration that names them.
        names: the names.

    Raises:
        UsageError: one is not; names the nearest.
    """
    for name in names:
        if name not in SUFFIXES:
            close = difflib.get_close_matches(str(name), SUFFIXES, n=1, cutoff=0.4)
            suggestion = f"did you mean {close[0]}? " if close else ""
            raise UsageError(
                f"{owner}: {attribute} names {name!r}, which is not a profile",
                hint=f"{suggestion}profiles: {', '.join(SUFFIXES)}",
            )


def check_by_profile(owner: str, attribute: str, value: object, kind: type[Any]) -> None:
    """Check that `value` is a mapping from profiles to objects of `kind`.

    Raises:
        UsageError: it is not; says what it is.
    """
    if not isinstance(value, Mapping):
        raise UsageError(
            f"{owner}: {attribute} is a {type(value).__name__}", hint="give a dictionary with an entry for each profile"
        )
    check_profiles(owner, attribute, value)
    for profile, entry in value.items():
        check_kind(owner, f"{attribute}[{profile!r}]", entry, kind)


def check_kind(owner: str, attribute: str, value: object, kind: type[Any]) -> None:
    """Check that `value` is an object of `kind`.

    Raises:
        UsageError: it is not; says what it is, and what is wanted.
    """
    if not isinstance(value, kind):
        raise UsageError(f"{owner}: {attribute} is {value!r}, a {type(value).__name__}", hint=f"give a {kind.__name__}")


PROFILES = tuple(name for name in SUFFIXES if name != CPU_SUFFIX)
"""Those in which every case is tested; in the one for the CPU, cases of operators are that have `m55`."""
_NONE: Mapping[str, Any] = MappingProxyType({})
_T = TypeVar("_T")


@dataclass(frozen=True)
class Input:
    """An input tensor with random values from the case's own seed.

    Attributes:
        shape: logical shape, [N, C, H, W] for images.
        dtype: "float32", "int8", "int32", "int64" or "bool".
        low, high: limits of its values, which are evenly distributed; integers include both.
        channels_last: whether its memory is in the order [N, H, W, C].
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    low: float = -1.0
    high: float = 1.0
    channels_last: bool = False


def f32(*shape: int, low: float = -1.0, high: float = 1.0, channels_last: bool = False) -> Input:
    """Return a float tensor of `shape`."""
    return Input(shape, "float32", low, high, channels_last)


def i64(*shape: int, low: int, high: int) -> Input:
    """Return an index tensor of `shape`."""
    return Input(shape, "int64", low, high)


def i32(*shape: int, low: int = -128, high: int = 127) -> Input:
    """Return an integer tensor of `shape`."""
    return Input(shape, "int32", low, high)


def i8(*shape: int, low: int = -128, high: int = 127) -> Input:
    """Return a quantised tensor of `shape`."""
    return Input(shape, "int8", low, high)


def boolean(*shape: int) -> Input:
    """Return a tensor of truth values."""
    return Input(shape, "bool", 0, 1)


@dataclass(frozen=True)
class Layer:
    """A module of torch.nn, by name."""

    name: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]


def layer(name: str, *arguments: Any, **options: Any) -> Layer:
    """Return torch.nn's module `name` with these arguments; it is created when it is needed."""
    return Layer(name, arguments, MappingProxyType(options))


@dataclass(frozen=True)
class TorchCall:
    """A function of torch, by name."""

    name: str
    options: Mapping[str, Any]


def call(name: str, **options: Any) -> TorchCall:
    """Return a call of torch's function `name` ("erf", "nn.functional.gelu") on the inputs, with these options."""
    return TorchCall(name, MappingProxyType(options))


@dataclass(frozen=True)
class Defect:
    """A defect upstream, and its present effect: the test fails when the effect differs.

    Attributes:
        what: the defect, in a sentence.
        kind: kind of the failure, "mismatch" or "compile" for example.
        says: a part of the failure's message.
        link: an upstream issue, or the place in this repository that describes it.
    """

    what: str
    kind: FailureKind
    says: str
    link: str

    def tells(self, failure: Failure) -> bool:
        """Return whether the failure is the effect of this defect."""
        return failure.kind == self.kind and self.says in failure.message


Forward = Callable[..., Any] | Layer | TorchCall | tuple[Layer, ...]


@dataclass(frozen=True, kw_only=True)
class ByProfile:
    """What is declared of a case, or of all cases of an operator, by profile: the mappings' keys are profile names.

    Attributes:
        on_cpu: why it runs on the CPU. The test asserts that nothing is delegated, and that the answer is right.
        beside: all edge operators that are delegated nevertheless where it runs on the CPU.
        leaves: the kernels that run on the CPU, each with the reason. Only these, quantise and dequantise may run
            there.
        lacks: the kernels that it needs and the firmware lacks. The test asserts that exactly these are missing.
        defects: the defects upstream.
    """

    on_cpu: Mapping[str, str] = field(default_factory=dict)
    beside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    leaves: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    lacks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    defects: Mapping[str, Defect] = field(default_factory=dict)

    def _check(self, owner: str) -> None:
        kinds = {"on_cpu": str, "beside": tuple, "leaves": Mapping, "lacks": tuple, "defects": Defect}
        for attribute, kind in kinds.items():
            check_by_profile(owner, attribute, getattr(self, attribute), kind)


@dataclass(frozen=True)
class Case(ByProfile):
    """One module with one set of inputs.

    Attributes:
        name: name of the case, unique within its operator; part of the tests' names.
        forward: a function of tensors, or a layer, or several in a row. Torch is imported when it is called, so a
            function uses the methods of tensors, or imports torch itself.
        inputs: its arguments.
        scheme: how it is quantised.
        on_cpu, beside, leaves, lacks, defects: as in `ByProfile`.
    """

    name: str
    forward: Forward
    inputs: tuple[Input, ...]
    scheme: Scheme = "a8w8"

    def __post_init__(self) -> None:
        """Check what no test would see. Raises UsageError."""
        owner = f"case {self.name}"
        if not (callable(self.forward) or isinstance(self.forward, Layer | TorchCall | tuple)):
            raise UsageError(
                f"{owner}: {self.forward!r} is not what computes something", hint="give a function, layer() or call()"
            )
        for number, entry in enumerate(self.inputs):
            check_kind(owner, f"input {number}", entry, Input)
        self._check(owner)

    @property
    def profiles(self) -> tuple[str, ...]:
        """The profiles that it is tested in: all, except MI for another quantisation, because nothing is quantised
        there.
        """
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
    """Return a `Case` with these attributes."""
    return Case(
        name, forward, inputs, scheme, on_cpu=on_cpu, beside=beside, leaves=leaves, lacks=lacks, defects=defects
    )


@dataclass(frozen=True)
class Operator(ByProfile):
    """An operator and its cases: each case gives one test per profile, `test_<operator>_<case>_<profile>`.

    Attributes:
        name: its usual name.
        aten: the edge operators (aten's name and overload) that must be delegated, among those in upstream's lists of
            what TOSA can express. It also applies to the quantised profiles, unless `aten_int` is given: there upstream
            replaces some operators before it quantises them.
        cases: at least one.
        fp, int: the TOSA operators that must be in the delegated program, in profile MI and in all others.
        aten_int: see `aten`.
        m55: the kernels of the Cortex-M backend ("quantized_add") of which each case calls at least one; with any, the
            cases in 8 bits are tested in M55_BI, too.
        on_cpu, beside, leaves, lacks, defects: as in `ByProfile`, for all cases; a case's own entry has priority.
    """

    name: str
    aten: tuple[str, ...]
    cases: tuple[Case, ...]
    fp: tuple[str, ...] = ()
    int: tuple[str, ...] = ()
    aten_int: tuple[str, ...] | None = None
    m55: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check what no test would see. Raises UsageError."""
        owner = f"operator {self.name}"
        for attribute in ("aten", "cases", "fp", "int", "m55"):  # a text would be taken for its letters
            check_kind(owner, attribute, getattr(self, attribute), tuple)
        for entry in self.cases:
            check_kind(owner, "a case", entry, Case)
        self._check(owner)

    def profiles_of(self, entry: Case) -> tuple[str, ...]:
        """Return the profiles that a case is tested in."""
        on_cpu = bool(self.m55) and entry.scheme == "a8w8" and CPU_SUFFIX not in entry.on_cpu
        return (*entry.profiles, *((CPU_SUFFIX,) if on_cpu else ()))

    def aten_in(self, profile: str) -> tuple[str, ...]:
        """Return the edge operators that must be delegated in a profile."""
        return self.aten if profile == "MI" or self.aten_int is None else self.aten_int

    def tosa_in(self, profile: str) -> tuple[str, ...]:
        """Return the TOSA operators that must be in the delegated program in a profile."""
        return self.fp if profile == "MI" else self.int


def u55(entry: _T) -> dict[str, _T]:
    """Return an entry for Ethos-U55 and Ethos-U65: upstream compiles both from the TOSA that the U55 supports."""
    return {family.suffix: entry for family in FAMILIES if family.tosa == U55.tosa}


def npus(entry: _T) -> dict[str, _T]:
    """Return an entry for all NPUs."""
    return {family.suffix: entry for family in FAMILIES}


def m55(entry: _T) -> dict[str, _T]:
    """Return an entry for the profile of the CPU alone."""
    return {CPU_SUFFIX: entry}


def integer(entry: _T) -> dict[str, _T]:
    """Return an entry for all quantised profiles."""
    return {"BI": entry, **npus(entry)}


def everywhere(entry: _T) -> dict[str, _T]:
    """Return an entry for all profiles."""
    return {"MI": entry, **integer(entry)}
