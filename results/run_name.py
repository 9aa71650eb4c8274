"""The names of run folders, and the default folders."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

DEFAULT_ROOT = "results/runs"
DEFAULT_HISTORY = "results/history"


def new_name() -> str:
    """Return the name of a new run folder: the time, and a random part."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
