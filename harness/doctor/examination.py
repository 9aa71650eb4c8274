"""All findings, in the order of importance, made at the same time: programs take their while to answer."""

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
    """Everything there is to say about this installation."""
    with ThreadPoolExecutor(len(_PARTS)) as pool:
        parts = [pool.submit(part) for part in _PARTS]
    return [finding for part in parts for finding in part.result()]


def can_run(findings: Sequence[Finding]) -> bool:
    """Whether the default target, the virtual boards, can run."""
    return all(finding.status is not Status.MISSING for finding in findings)
