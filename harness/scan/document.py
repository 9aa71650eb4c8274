"""A scan as JSON and as CSV, for programs."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from ethos_hil.harness.scan.changes import VersionChange, first_changes
from ethos_hil.harness.scan.compiled_version import MODELLED, CompiledVersion
from ethos_hil.harness.scan.report import PointScan, ScanReport
from ethos_hil.results.table_files import as_csv

SCHEMA_VERSION = 2
_NOT_IN_CSV = ("packages", "ops", "notes")


def document(report: ScanReport) -> dict[str, Any]:
    """Return the JSON of a scan; docs/scan.md describes it."""
    return {
        "schema_version": SCHEMA_VERSION,
        "model": report.model,
        "provenance": MODELLED,
        "timing_model": report.timing_model,
        "packages": [
            {"package": each.package, "points": [_point(each.package, point) for point in each.points]}
            for each in report.packages
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
        "versions": [_version(each) for each in point.versions],
        "changes": [_change(each) for each in point.changes],
    }


def _version(version: CompiledVersion) -> dict[str, Any]:
    return {**asdict(version), "packages": dict(version.packages), "seconds": round(version.seconds, 3)}


def _change(change: VersionChange) -> dict[str, Any]:
    return {
        "version": change.version,
        "before": change.before,
        "quantities": {each.name: {"old": each.old, "new": each.new} for each in change.quantities},
        "rows": [asdict(row) for row in change.rows],
    }


def table(report: ScanReport) -> str:
    """Return the CSV of a scan: a row for each version of each NPU and memory mode."""
    named = [each.name for each in fields(CompiledVersion) if each.name not in _NOT_IN_CSV]
    columns = ["model", "package", "npu", "memory_mode", "system_config", "timing_model", *named]
    rows = (
        [report.model, package.package, point.npu, point.memory_mode, point.system_config, report.timing_model,
         *(getattr(version, name) for name in named)]
        for package in report.packages
        for point in package.points
        for version in point.versions
    )  # fmt: skip
    return as_csv(columns, rows)
