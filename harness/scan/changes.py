"""What changed from one version to the next, and the sentences that say so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

from ethos_hil.harness.scan.compiled_version import CompiledVersion, ScanAnswer
from ethos_hil.results.comparison import RowChange, RowDifference, npu_differences

QUANTITIES = {
    "tosa_sha256": "TOSA",
    "stream_sha256": "command stream",
    "weights_sha256": "encoded weights",
    "operations": "operations",
    "transfers": "DMA transfers",
    "cycles": "modelled cycles",
    "vela_cycles": "cycles in Vela's own estimate",
    "stream_bytes": "bytes of command stream",
    "weights_bytes": "bytes of encoded weights",
    "arena_bytes": "bytes of arena",
    "fast_bytes": "bytes of fast memory",
    "answer": "answer",
}
"""What may change, as `CompiledVersion` calls it and in words; earlier ones are causes of later ones."""
_DIGESTS = {
    "tosa_sha256": "another TOSA",
    "stream_sha256": "another command stream",
    "weights_sha256": "other encoded weights",
}
_TOLD = ("cycles", "operations", "transfers", "weights_bytes", "arena_bytes", "fast_bytes")
"""The quantities in a sentence about another command stream."""
assert set(QUANTITIES) <= {each.name for each in fields(CompiledVersion)}


@dataclass(frozen=True)
class QuantityChange:
    """A quantity of `QUANTITIES`, before and now."""

    name: str
    old: int | str | None
    new: int | str | None

    def __str__(self) -> str:
        """Return `114,675 -> 93,926 modelled cycles`; of a digest only that it is another one."""
        what = QUANTITIES[self.name]
        if self.name in _DIGESTS:
            return _DIGESTS[self.name]
        return f"{_number(self.old)} -> {_number(self.new)} {what}"


@dataclass(frozen=True)
class VersionChange:
    """What a version changed.

    Attributes:
        version: the version.
        before: the one before it that compiled.
        quantities: what is another one, in the order of `QUANTITIES`.
        rows: the operations whose cycles differ, the largest difference first.
    """

    version: str
    before: str
    quantities: tuple[QuantityChange, ...]
    rows: tuple[RowDifference, ...]

    def of(self, name: str) -> QuantityChange | None:
        """Return the change of a quantity, or None if it stayed."""
        return next((each for each in self.quantities if each.name == name), None)


def changes(versions: Sequence[CompiledVersion]) -> tuple[VersionChange, ...]:
    """Return the changes from each version that compiled to the next one that did, oldest first."""
    compiled = [each for each in versions if not each.reason]
    found = []
    for before, after in pairwise(compiled):
        quantities = tuple(
            QuantityChange(name, getattr(before, name), getattr(after, name))
            for name in QUANTITIES
            if getattr(before, name) != getattr(after, name)
        )
        if quantities:
            rows = [row for row in npu_differences(before.ops, after.ops) if row.change is not RowChange.UNCHANGED]
            rows.sort(key=lambda row: -abs(row.delta))
            found.append(VersionChange(after.version, before.version, quantities, tuple(rows)))
    return tuple(found)


def first_changes(found: Sequence[VersionChange]) -> dict[str, str]:
    """Return the first version at which each quantity changed, by its name in `QUANTITIES`."""
    firsts: dict[str, str] = {}
    for change in found:
        for quantity in change.quantities:
            firsts.setdefault(quantity.name, change.version)
    return {name: firsts[name] for name in QUANTITIES if name in firsts}


def findings(package: str, versions: Sequence[CompiledVersion], found: Sequence[VersionChange]) -> tuple[str, ...]:
    """Return a sentence for each thing that a user has to know, the most important one first."""
    return (
        *_streams(package, versions, found),
        *(
            f"{package} {each.version} gives a wrong answer: {each.said}"
            for each in versions
            if each.answer is ScanAnswer.WRONG and not each.reason
        ),
        *(f"{package} {each.version} makes no program: {each.reason}" for each in versions if each.reason),
    )


def _streams(package: str, versions: Sequence[CompiledVersion], found: Sequence[VersionChange]) -> Iterator[str]:
    compiled = [each for each in versions if not each.reason]
    if not compiled:
        yield f"no version of {package} makes a program"
        return
    streams = [change for change in found if change.of("stream_sha256") is not None]
    if len(compiled) == 1:
        yield f"only {package} {compiled[0].version} makes a program, so nothing can have changed"
    elif not streams:
        many = "both versions" if len(compiled) == 2 else f"all {len(compiled)} versions"
        yield f"{many} of {package} make the same command stream: {_number(compiled[0].cycles)} modelled cycles"
    for number, change in enumerate(streams):
        told = [str(each) for name in _TOLD if (each := change.of(name)) is not None]
        at = next(at for at, each in enumerate(compiled) if each.version == change.version)
        if change.of("cycles") is None:
            told.insert(0, f"{_number(compiled[at].cycles)} modelled cycles as before")
        if change.of("tosa_sha256") is not None:
            told.append("it compiles another TOSA")
        verb = "changed again" if number else "changed"
        first = "is the first at which the command stream" if not number else "is where it"
        old = next(
            (each.version for each in compiled[: at - 1] if each.stream_sha256 == compiled[at].stream_sha256), ""
        )
        back = f", to that of {old}" if old else ""
        yield f"{package} {change.version} {first} {verb}{back}: {'; '.join(told)}"
    for change in found:
        if change in streams:
            continue
        said = "; ".join(str(each) for each in change.quantities)
        yield f"{package} {change.version} leaves the command stream as it was in {change.before}: {said}"


def _number(value: int | str | None) -> str:
    return "no" if value is None else f"{value:,}" if isinstance(value, int) else value
