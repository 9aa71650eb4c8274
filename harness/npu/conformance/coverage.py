"""Which kinds of operation a program consists of: the rows of the table of what was verified."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Protocol

from harness.npu import Program
from harness.npu.operations import Op


class Checked(Protocol):
    """What a table of coverage is made from."""

    @property
    def npu(self) -> str:
        """The configuration."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of operation that ran."""


def kinds_of(program: Program) -> tuple[str, ...]:
    """The kinds of a program's operations, each once, sorted."""
    return tuple(sorted({kind for op in program.ops for kind in kinds(op)}))


def kinds(op: Op) -> Iterable[str]:
    """What an operation is, once plainly and once for each thing that sets it apart."""
    name = op.name
    yield name
    for feature in features(op):
        yield f"{name}, {feature}"


def features(op: Op) -> Iterable[str]:
    """What sets an operation apart from the plainest of its name: types, table, rounding, tiles, chains, order."""
    ifm, ofm = getattr(op, "ifm", None), getattr(op, "ofm", None)
    if ifm is not None and ofm is not None:
        yield f"{_type(ifm)} to {_type(ofm)}"
    for role, feature_map in (("IFM", ifm), ("IFM2", getattr(op, "ifm2", None)), ("OFM", ofm)):
        yield from (f"{role} {text}" for text in _storage(feature_map))
    for scale in _parts(op, "Scale"):
        if scale.shift:
            yield f"rounding {scale.rounding.name.lower()}"
    activation = getattr(op, "activation", None)
    if activation is not None and activation.table is not None:
        yield "table"
    upscale = getattr(op, "upscale", None)
    if upscale:
        yield f"upscale {upscale.name.lower()}"
    if getattr(op, "reversed_operands", False):
        yield "reversed operands"


def _type(feature_map: Any) -> str:
    return f"{'int' if feature_map.signed else 'uint'}{feature_map.bits}"


def _storage(feature_map: Any) -> Iterable[str]:
    if feature_map is None or not hasattr(feature_map, "layout"):
        return
    yield feature_map.layout.name
    if len(list(getattr(feature_map, "tiles", lambda: ())())) > 1:
        yield "in tiles"
    if getattr(feature_map, "axes", (0, 1, 2)) != (0, 1, 2):
        yield "transposed"
    if getattr(feature_map, "reverse", None) is not None:
        yield "reversed"


def _parts(value: Any, kind: str) -> Iterable[Any]:
    """Everything called `kind` inside a dataclass."""
    for field in fields(value):
        part = getattr(value, field.name)
        if type(part).__name__ == kind:
            yield part
        elif is_dataclass(part) and not isinstance(part, type):
            yield from _parts(part, kind)


def table(checked: Iterable[Checked], npus: Sequence[str]) -> str:
    """A Markdown table: a row for each kind, a column for each configuration with how many exact programs had it."""
    counts: Mapping[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(npus, 0))
    for one in checked:
        for kind in one.kinds:
            counts[kind][one.npu] += 1
    short = [npu.removeprefix("ethos-") for npu in npus]
    lines = [f"| operation | {' | '.join(short)} |", f"| --- |{' ---: |' * len(npus)}"]
    for kind in sorted(counts):
        lines.append(f"| {kind} | {' | '.join(str(counts[kind][npu] or '') for npu in npus)} |")
    return "\n".join(lines) + "\n"
