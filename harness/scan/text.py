"""A scan as text for people: what changed first, a row for each version, and the operations that changed."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.base.console import plain
from ethos_hil.harness.scan.compiled_version import CompiledVersion, ScanAnswer
from ethos_hil.harness.scan.report import QUANTITIES, PackageScan, PointScan, ScanReport, VersionChange, first_changes
from ethos_hil.results.table import Fit, ResultTable, TableColumn
from ethos_hil.results.text.comparison import row_table

_DIGITS = 8
_COLUMNS = {
    "tosa_sha256": "TOSA",
    "stream_sha256": "stream",
    "weights_sha256": "weights",
    "operations": "operations",
    "transfers": "DMA",
    "cycles": "cycles (modelled)",
    "vela_cycles": "Vela's estimate",
    "weights_bytes": "weights, bytes",
    "arena_bytes": "arena, bytes",
}
"""What is shown of each version."""
_CHANGED = "bold yellow"
_STYLES = {ScanAnswer.EQUAL: "green", ScanAnswer.WRONG: "red", ScanAnswer.UNKNOWN: ""}


def scan(report: ScanReport, *, top: int) -> RenderableType:
    """Return the text of a scan.

    Args:
        report: the scan.
        top: the most rows to show of each change.
    """
    return Group(*(part for item in report.packages for point in item.points for part in _point(item, point, top)))


def _point(package: PackageScan, point: PointScan, top: int) -> Iterator[RenderableType]:
    yield Text.assemble(
        (package.package, "bold"), plain(f" on {point.npu}, {point.memory_mode}, {point.system_config}")
    )
    for number, line in enumerate(point.findings(package.package)):
        yield Text(style="bold" if not number else "").append_text(plain(line))
    if point.changes:
        yield plain(f"changed first: {_firsts(point)}")
    yield ""
    yield _versions(point)
    for change in point.changes:
        if change.rows:
            yield ""
            yield plain(f"{package.package} {change.before} -> {change.version}, operations that changed")
            yield row_table(change.rows, "cycles (modelled)", top)
    for version in point.versions:
        for note in version.notes if version.notes != point.notes else ():
            yield plain(f"note: {version.version}: {note}")
    for note in point.notes:
        yield plain(f"note: {note}")
    yield ""


def _firsts(point: PointScan) -> str:
    """Return what changed first at each version."""
    by_version: dict[str, list[str]] = {}
    for name, version in first_changes(point.changes).items():
        by_version.setdefault(version, []).append(QUANTITIES[name])
    versions = (version.version for version in point.versions if version.version in by_version)
    return "; ".join(f"at {version} {', '.join(by_version[version])}" for version in versions)


def _versions(point: PointScan) -> Table:
    changed = {change.version: change for change in point.changes}

    def column(name: str, title: str) -> TableColumn[CompiledVersion]:
        fit = Fit.WHOLE if name.endswith("sha256") else Fit.NUMBER
        return TableColumn(title, lambda version: _cell(version, name, changed.get(version.version)), fit=fit)

    columns = (*_FIRST_COLUMNS, *(column(name, title) for name, title in _COLUMNS.items()))
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


assert set(_COLUMNS) <= set(QUANTITIES)
