"""What a scan found: what changed from one version to the next, in sentences, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.base.console import plain
from ethos_hil.base.dataclasses import asdict, dataclass, fields
from ethos_hil.harness.scan.bisection import BY, Bisected, state_of
from ethos_hil.harness.scan.compiled_version import MODELLED, CompiledVersion, ScanAnswer
from ethos_hil.results.comparison import RowChange, RowDifference, npu_differences
from ethos_hil.results.table import Fit, ResultTable, TableColumn
from ethos_hil.results.text.comparison import row_table

QUANTITIES = {
    "depth": "depth",
    "cpu_calls": "calls of the CPU",
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
    "sqnr_db": "dB of SQNR",
    "answer": "answer",
}
"""What may change, as `CompiledVersion` calls it and in words; earlier ones are causes of later ones."""
_DIGESTS = {
    "tosa_sha256": "another TOSA",
    "stream_sha256": "another command stream",
    "weights_sha256": "other encoded weights",
}
_TOLD = (
    "answer", "cycles", "operations", "cpu_calls", "transfers", "weights_bytes", "arena_bytes", "fast_bytes", "sqnr_db",
    "depth",
)  # fmt: skip
"""The quantities in a sentence about another command stream."""
assert set(QUANTITIES) <= {field.name for field in fields(CompiledVersion)}
SCHEMA_VERSION = 4
_DIGITS = 8
_COLUMNS = {
    "tosa_sha256": "TOSA",
    "stream_sha256": "stream",
    "weights_sha256": "weights",
    "operations": "operations",
    "cpu_calls": "CPU",
    "transfers": "DMA",
    "cycles": "cycles (modelled)",
    "vela_cycles": "Vela's estimate",
    "weights_bytes": "weights, bytes",
    "arena_bytes": "arena, bytes",
    "sqnr_db": "SQNR, dB",
}
"""What is shown of each version."""
_SELDOM = ("sqnr_db",)
"""What is shown only where it is known."""
_CHANGED = "bold yellow"
_STYLES = {ScanAnswer.EQUAL: "green", ScanAnswer.WRONG: "red", ScanAnswer.UNKNOWN: ""}


@dataclass(frozen=True)
class QuantityChange:
    """A quantity of `QUANTITIES`, before and now."""

    name: str
    old: int | float | str | None
    new: int | float | str | None

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
        rows: the operations whose cycles differ, the largest difference first; none where the depth is another one, for
            then they come from other places.
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
            alike = before.depth == after.depth
            rows = [row for row in npu_differences(before.ops, after.ops) if row.change is not RowChange.UNCHANGED]
            rows = rows if alike else []
            rows.sort(key=lambda row: -abs(row.delta))
            steps.append(VersionChange(after.version, before.version, quantities, tuple(rows)))
    return tuple(steps)


def findings(point: PointScan, package: str) -> tuple[str, ...]:
    """Return a sentence for each thing that a user has to know, the most important one first.

    Args:
        point: what was scanned.
        package: of what it has versions; "" where a version is named in full.
    """
    versions, found = point.versions, point.bisected
    first = _streams(versions, point.changes, package) if found is None else _bisected(point, found, package)
    told = [version for version in versions if found is None or version.version == found.first]
    return (
        *first,
        *(
            f"{_name(package, version)} gives a wrong answer: {version.said}"
            for version in told
            if version.answer is ScanAnswer.WRONG and not version.reason
        ),
        *(f"{_name(package, version)} makes no program: {version.reason}" for version in told if version.reason),
    )


def _name(package: str, version: CompiledVersion | VersionChange | str) -> str:
    return f"{package} {version if isinstance(version, str) else version.version}".strip()


def _bisected(point: PointScan, found: Bisected, package: str) -> Iterator[str]:
    versions = {version.version: version for version in point.versions}
    if not found.first:
        yield f"the first and the last of {found.count} are alike, so the others were not tried"
        return
    new, old = versions[found.first], versions[found.before]
    what = QUANTITIES.get(BY[found.by], "program")
    moved = "" if BY[found.by] in _DIGESTS else f": {_state(old, found.by)} -> {_state(new, found.by)}"
    many = f"{len(versions)} of {found.count} were tried"
    title = f' "{new.title}"' if new.title else ""
    yield f"{_name(package, new)}{title} is the first at which the {what} changed, after {old.version}{moved} ({many})"
    if found.untried:
        yield (
            f"{len(found.untried)} between both cannot be tried, and the change may be in one of them: "
            f"{', '.join(found.untried)}"
        )


def _state(version: CompiledVersion, by: str) -> str:
    return _number(state_of(version, by))


def _streams(versions: Sequence[CompiledVersion], changes: Sequence[VersionChange], package: str) -> Iterator[str]:
    compiled = [version for version in versions if not version.reason]
    of = f" of {package}" if package else ""
    if not compiled:
        yield f"no version{of} makes a program"
        return
    streams = [change for change in changes if change.of("stream_sha256") is not None]
    if len(compiled) == 1:
        yield f"only {_name(package, compiled[0])} makes a program, so nothing can have changed"
    elif not streams:
        many = "both versions" if len(compiled) == 2 else f"all {len(compiled)} versions"
        yield f"{many}{of} make the same command stream: {_number(compiled[0].cycles)} modelled cycles"
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
        yield f"{_name(package, change)} {first} {verb}{back}: {'; '.join(facts)}"
    for change in changes:
        if change in streams:
            continue
        text = "; ".join(str(quantity) for quantity in change.quantities)
        yield f"{_name(package, change)} leaves the command stream as it was in {change.before}: {text}"


def _number(value: int | float | str | None) -> str:
    return "no" if value is None else value if isinstance(value, str) else f"{value:,}"


@dataclass(frozen=True)
class PointScan:
    """The versions for one NPU in one memory mode.

    Attributes:
        npu, memory_mode, system_config: what they compile for.
        versions: what each of them made, the oldest first.
        notes: sentences about the lowering that they start from.
        bisected: what a bisection found, where not all were tried.
    """

    npu: str
    memory_mode: str
    system_config: str
    versions: tuple[CompiledVersion, ...]
    notes: tuple[str, ...] = ()
    bisected: Bisected | None = None

    @cached_property
    def changes(self) -> tuple[VersionChange, ...]:
        """What changed from version to version."""
        return changes(self.versions)


@dataclass(frozen=True)
class ScanReport:
    """All that was scanned.

    Attributes:
        model: the user's name of the question.
        package: of what there are versions: "ethos-u-vela", "executorch", "commit"; "" where they are named in full.
        points: each NPU in each memory mode, in the order in which they were asked for.
        timing_model: id of the model that modelled cycles come from.
    """

    model: str
    package: str
    points: tuple[PointScan, ...]
    timing_model: str


def document(report: ScanReport) -> dict[str, Any]:
    """Return the JSON of a scan; docs/scan.md describes it."""
    return {
        "schema_version": SCHEMA_VERSION,
        "model": report.model,
        "provenance": MODELLED,
        "timing_model": report.timing_model,
        "package": report.package,
        "points": [_document_of(point, report.package) for point in report.points],
    }


def _document_of(point: PointScan, package: str) -> dict[str, Any]:
    return {
        "npu": point.npu,
        "memory_mode": point.memory_mode,
        "system_config": point.system_config,
        "findings": list(findings(point, package)),
        "bisected": None if point.bisected is None else asdict(point.bisected),
        "notes": list(point.notes),
        "versions": [
            {**asdict(version), "packages": dict(version.packages), "seconds": round(version.seconds, 3)}
            for version in point.versions
        ],
        "changes": [
            {
                "version": change.version,
                "before": change.before,
                "quantities": {it.name: {"old": it.old, "new": it.new} for it in change.quantities},
                "rows": [asdict(row) for row in change.rows],
            }
            for change in point.changes
        ],
    }


def text(report: ScanReport, *, top: int) -> RenderableType:
    """Return the text of a scan.

    Args:
        report: the scan.
        top: the most rows to show of each change.
    """
    return Group(*(part for point in report.points for part in _text_of(point, report.package, top)))


def _text_of(point: PointScan, package: str, top: int) -> Iterator[RenderableType]:
    what = (package or "upstreams", "bold")
    yield Text.assemble(what, plain(f" on {point.npu}, {point.memory_mode}, {point.system_config}"))
    for number, line in enumerate(findings(point, package)):
        yield Text(style="bold" if not number else "").append_text(plain(line))
    yield ""
    yield _versions(point)
    for change in point.changes:
        if change.rows and (point.bisected is None or change.version == point.bisected.first):
            yield ""
            yield plain(f"{_name(package, change.before)} -> {change.version}, operations that changed")
            yield row_table(change.rows, "cycles (modelled)", top)
    for version in point.versions:
        for note in version.notes if version.notes != point.notes else ():
            yield plain(f"note: {version.version}: {note}")
    for note in point.notes:
        yield plain(f"note: {note}")
    yield ""


def _versions(point: PointScan) -> Table:
    changed = {change.version: change for change in point.changes}

    def column(name: str, title: str) -> TableColumn[CompiledVersion]:
        fit = Fit.WHOLE if name.endswith("sha256") else Fit.NUMBER
        return TableColumn(title, lambda version: _cell(version, name, changed.get(version.version)), fit=fit)

    known = {name for name in _SELDOM for version in point.versions if getattr(version, name) is not None}
    shown = {name: title for name, title in _COLUMNS.items() if name not in _SELDOM or name in known}
    columns = (*_FIRST_COLUMNS, *(column(name, title) for name, title in shown.items()))
    table = ResultTable(columns, point.versions).to_text()
    table.caption = "a value in colour, or with a *, is not that of the version before"
    return table


def _answer(version: CompiledVersion) -> Text:
    if version.reason:
        return Text("no program", style="red")
    return Text(version.answer, style=_STYLES[version.answer])


_FIRST_COLUMNS: tuple[TableColumn[CompiledVersion], ...] = (
    TableColumn("version", lambda version: version.version, fit=Fit.WHOLE),
    TableColumn("answer", _answer, fit=Fit.WHOLE),
)


def _cell(version: CompiledVersion, name: str, change: VersionChange | None) -> Text | str:
    if version.reason:
        return ""
    value = getattr(version, name)
    text = value[:_DIGITS] if isinstance(value, str) else "none" if value is None else f"{value:,}"
    moved = change is not None and change.of(name) is not None
    return Text(f"{text}*" if moved else text, style=_CHANGED if moved else "")
