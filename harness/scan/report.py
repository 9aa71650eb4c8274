"""What a scan found: what changed from one version to the next, in sentences, as JSON and as CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any

from ethos_hil.harness.scan.compiled_version import MODELLED, CompiledVersion, ScanAnswer
from ethos_hil.results.comparison import RowChange, RowDifference, npu_differences
from ethos_hil.results.table import as_csv

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
assert set(QUANTITIES) <= {field.name for field in fields(CompiledVersion)}
SCHEMA_VERSION = 2
_NOT_IN_CSV = ("packages", "ops", "notes")


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
        return next((quantity for quantity in self.quantities if quantity.name == name), None)


def changes(versions: Sequence[CompiledVersion]) -> tuple[VersionChange, ...]:
    """Return the changes from each version that compiled to the next one that did, oldest first."""
    compiled = [version for version in versions if not version.reason]
    steps = []
    for before, after in pairwise(compiled):
        quantities = tuple(
            QuantityChange(name, getattr(before, name), getattr(after, name))
            for name in QUANTITIES
            if getattr(before, name) != getattr(after, name)
        )
        if quantities:
            rows = [row for row in npu_differences(before.ops, after.ops) if row.change is not RowChange.UNCHANGED]
            rows.sort(key=lambda row: -abs(row.delta))
            steps.append(VersionChange(after.version, before.version, quantities, tuple(rows)))
    return tuple(steps)


def first_changes(changes: Sequence[VersionChange]) -> dict[str, str]:
    """Return the first version at which each quantity changed, by its name in `QUANTITIES`."""
    firsts: dict[str, str] = {}
    for change in changes:
        for quantity in change.quantities:
            firsts.setdefault(quantity.name, change.version)
    return {name: firsts[name] for name in QUANTITIES if name in firsts}


def findings(package: str, versions: Sequence[CompiledVersion], changes: Sequence[VersionChange]) -> tuple[str, ...]:
    """Return a sentence for each thing that a user has to know, the most important one first."""
    return (
        *_streams(package, versions, changes),
        *(
            f"{package} {version.version} gives a wrong answer: {version.said}"
            for version in versions
            if version.answer is ScanAnswer.WRONG and not version.reason
        ),
        *(f"{package} {version.version} makes no program: {version.reason}" for version in versions if version.reason),
    )


def _streams(package: str, versions: Sequence[CompiledVersion], changes: Sequence[VersionChange]) -> Iterator[str]:
    compiled = [version for version in versions if not version.reason]
    if not compiled:
        yield f"no version of {package} makes a program"
        return
    streams = [change for change in changes if change.of("stream_sha256") is not None]
    if len(compiled) == 1:
        yield f"only {package} {compiled[0].version} makes a program, so nothing can have changed"
    elif not streams:
        many = "both versions" if len(compiled) == 2 else f"all {len(compiled)} versions"
        yield f"{many} of {package} make the same command stream: {_number(compiled[0].cycles)} modelled cycles"
    for number, change in enumerate(streams):
        facts = [str(quantity) for name in _TOLD if (quantity := change.of(name)) is not None]
        at = next(at for at, version in enumerate(compiled) if version.version == change.version)
        if change.of("cycles") is None:
            facts.insert(0, f"{_number(compiled[at].cycles)} modelled cycles as before")
        if change.of("tosa_sha256") is not None:
            facts.append("it compiles another TOSA")
        verb = "changed again" if number else "changed"
        first = "is the first at which the command stream" if not number else "is where it"
        old = next(
            (other.version for other in compiled[: at - 1] if other.stream_sha256 == compiled[at].stream_sha256), ""
        )
        back = f", to that of {old}" if old else ""
        yield f"{package} {change.version} {first} {verb}{back}: {'; '.join(facts)}"
    for change in changes:
        if change in streams:
            continue
        text = "; ".join(str(quantity) for quantity in change.quantities)
        yield f"{package} {change.version} leaves the command stream as it was in {change.before}: {text}"


def _number(value: int | str | None) -> str:
    return "no" if value is None else f"{value:,}" if isinstance(value, int) else value


@dataclass(frozen=True)
class PointScan:
    """The versions for one NPU in one memory mode.

    Attributes:
        npu, memory_mode, system_config: what they compile for.
        versions: what each of them made, the oldest first.
        notes: sentences about the lowering that they start from.
    """

    npu: str
    memory_mode: str
    system_config: str
    versions: tuple[CompiledVersion, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def changes(self) -> tuple[VersionChange, ...]:
        """What changed from version to version."""
        return changes(self.versions)

    def findings(self, package: str) -> tuple[str, ...]:
        """Return what a user has to know."""
        return findings(package, self.versions, self.changes)


@dataclass(frozen=True)
class PackageScan:
    """A package's versions, for each NPU and memory mode."""

    package: str
    points: tuple[PointScan, ...]


@dataclass(frozen=True)
class ScanReport:
    """All that was scanned.

    Attributes:
        model: the user's name of the question.
        packages: in the order in which they were asked for.
        timing_model: id of the model that modelled cycles come from.
    """

    model: str
    packages: tuple[PackageScan, ...]
    timing_model: str


def document(report: ScanReport) -> dict[str, Any]:
    """Return the JSON of a scan; docs/scan.md describes it."""
    return {
        "schema_version": SCHEMA_VERSION,
        "model": report.model,
        "provenance": MODELLED,
        "timing_model": report.timing_model,
        "packages": [
            {"package": package.package, "points": [_point(package.package, point) for point in package.points]}
            for package in report.packages
        ],
    }


def _point(package: str, point: PointScan) -> dict[str, Any]:
    return {
        "npu": point.npu,
        "memory_mode": point.memory_mode,
        "system_config": point.system_config,
        "findings": list(point.findings(package)),
        "notes": list(point.notes),
        "first_changes": first_changes(point.changes),
        "versions": [_version(version) for version in point.versions],
        "changes": [_change(change) for change in point.changes],
    }


def _version(version: CompiledVersion) -> dict[str, Any]:
    return {**asdict(version), "packages": dict(version.packages), "seconds": round(version.seconds, 3)}


def _change(change: VersionChange) -> dict[str, Any]:
    return {
        "version": change.version,
        "before": change.before,
        "quantities": {quantity.name: {"old": quantity.old, "new": quantity.new} for quantity in change.quantities},
        "rows": [asdict(row) for row in change.rows],
    }


def table(report: ScanReport) -> str:
    """Return the CSV of a scan: a row for each version of each NPU and memory mode."""
    named = [field.name for field in fields(CompiledVersion) if field.name not in _NOT_IN_CSV]
    columns = ["model", "package", "npu", "memory_mode", "system_config", "timing_model", *named]
    rows = (
        [report.model, package.package, point.npu, point.memory_mode, point.system_config, report.timing_model,
         *(getattr(version, name) for name in named)]
        for package in report.packages
        for point in package.points
        for version in point.versions
    )  # fmt: skip
    return as_csv(columns, rows)
