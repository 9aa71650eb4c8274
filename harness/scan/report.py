"""What a scan found."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ethos_hil.harness.scan.changes import VersionChange, changes, findings
from ethos_hil.harness.scan.compiled_version import CompiledVersion


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
