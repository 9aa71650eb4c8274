"""A line of `ethos-hil doctor`."""

from __future__ import annotations

from enum import StrEnum

from ethos_hil.base.dataclasses import dataclass


class Status(StrEnum):
    """What a finding means for the default target, the virtual boards."""

    OK = "ok"
    NOTE = "note"
    """They run, and there is something to know."""
    MISSING = "missing"
    """They cannot run."""


@dataclass(frozen=True)
class Finding:
    """One line of `ethos-hil doctor`.

    Attributes:
        name: of the thing.
        status: what it means.
        found: what is there, or what is not.
        remedy: what to do about it, or with it; or None.
    """

    name: str
    status: Status
    found: str
    remedy: str | None = None
