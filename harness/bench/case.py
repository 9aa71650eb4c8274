"""A case of a benchmark: what is computed, and how it is quantised. Data only: torch is imported when it is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ethos_hil.base.question import Scheme
from ethos_hil.base.record import Record
from ethos_hil.harness.targets.registry import name_in_records

SHORT, LONG = "short", "long"
"""Tags: a short case is booted on its target and verified; a long one is compiled and timed, on a virtual target."""


PointKey = tuple[str, str, str, str, str]


@dataclass(frozen=True)
class BenchCase:
    """One module, or a user's model.

    Attributes:
        name: unique in its grid, "conv3x3_56x56x64".
        group: what it is a case of, "conv3x3".
        steps: what is computed, one after the other; empty for a model.
        inputs: the input tensors of the first step.
        scheme: bits of activations and weights.
        tags: `SHORT` or `LONG`, and the user's own.
        model: a MODEL as on the command line; "" where there are steps.
        source: where it is declared, "grid.toml:12".
    """

    name: str
    group: str
    steps: tuple[BenchStep, ...]
    inputs: tuple[BenchInput, ...]
    scheme: Scheme = "a8w8"
    tags: tuple[str, ...] = (LONG,)
    model: str = ""
    source: str = ""

    @property
    def booted(self) -> bool:
        """Whether it is booted and verified on a virtual target too."""
        return SHORT in self.tags


@dataclass(frozen=True)
class BenchStep:
    """A layer of torch.nn, or a function of torch, by name.

    Attributes:
        layer: "Conv2d"; "" for a function.
        call: "nn.functional.gelu"; "" for a layer.
        args, options: its arguments, by position (of a layer) and by name.
    """

    layer: str = ""
    call: str = ""
    args: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return it as it is written in Python: "Conv2d(64, 64, 3, padding=1)"."""
        arguments = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.options.items())]
        return f"{self.layer or self.call}({', '.join(arguments)})"


@dataclass(frozen=True)
class BenchInput:
    """An input tensor with random values from the case's own seed, evenly distributed from `low` to `high`.

    Attributes:
        shape: logical shape, [N, C, H, W] for images.
        dtype: "float32", "int8", "int32", "int64" or "bool".
        channels_last: whether its memory is in the order [N, H, W, C].
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    low: float = -1.0
    high: float = 1.0
    channels_last: bool = False

    def __str__(self) -> str:
        """Return its shape, "1x64x56x56"."""
        return "x".join(map(str, self.shape))


@dataclass(frozen=True)
class BenchGrid:
    """Cases, with the NPUs and memories that they are compiled for.

    Attributes:
        name: "default", or the stem of the user's file.
        cases: in the order of the file.
        npus: names; all eleven by default.
        memory_modes: Vela's names; empty for one of each kind that an NPU has.
        system_configs: Vela's names; empty for the one that ExecuTorch chooses for the NPU.
    """

    name: str
    cases: tuple[BenchCase, ...]
    npus: tuple[str, ...] = ()
    memory_modes: tuple[str, ...] = ()
    system_configs: tuple[str, ...] = ()


@dataclass(frozen=True)
class BenchPoint:
    """A case at one place of a grid.

    Attributes:
        case: what is computed.
        npu: name of the NPU.
        memory_mode, system_config: Vela's names.
        target: what `--target` calls the target.
    """

    case: BenchCase
    npu: str
    memory_mode: str
    system_config: str
    target: str

    @property
    def key(self) -> PointKey:
        """What tells it from the other points of its grid, and its record from theirs."""
        return self.case.name, self.npu, self.memory_mode, self.system_config, name_in_records(self.target)


def key_of(record: Record) -> PointKey:
    """Return the key of the point that a record is of; its case is "" where it is of none."""
    case = record.bench.case if record.bench is not None else ""
    return case, record.npu, record.memory_mode, record.system_config, record.target.name
