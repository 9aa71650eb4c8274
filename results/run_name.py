"""The names of run folders, and where they are kept unless the user says otherwise."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

DEFAULT_ROOT = "results/runs"


def new_name() -> str:
    """Of a run folder that is made now: its time, and a random part."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
