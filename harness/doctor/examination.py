"""All findings, in order of importance. The parts run in threads, because programs are slow to answer."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ethos_hil.harness.doctor import packages, places, programs
from ethos_hil.harness.doctor.finding import Finding, Status

_PARTS = (
    packages.examine,
    programs.qemu,
    places.firmware,
    places.cache,
    places.disks,
    programs.toolchain,
    programs.fvps,
    places.serial_ports,
    places.variables,
)


def examine() -> list[Finding]:
    """Examine this installation and return all findings."""
    with ThreadPoolExecutor(len(_PARTS)) as pool:
        parts = [pool.submit(part) for part in _PARTS]
    return [finding for part in parts for finding in part.result()]


def can_run(findings: Sequence[Finding]) -> bool:
    """Return whether the default target, the virtual boards, can run."""
    return all(finding.status is not Status.MISSING for finding in findings)
