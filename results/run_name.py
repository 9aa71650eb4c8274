"""The names of run folders, and the default folders."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime

MANIFEST = "manifest.json"
"""The file of a run folder that says which run it is."""
LISTED = "`ethos-hil runs` lists what run folders have, `ethos-hil history` runs"
"""What to do about a run that is not there."""
DEFAULT_ROOT = "results/runs"
DEFAULT_HISTORY = "results/history"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,199}", re.ASCII)


def new_name() -> str:
    """Return the name of a new run folder: the time, and a random part."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def is_name(text: str) -> bool:
    """Return whether a run folder may be called so: it is not a path, and not an option."""
    return _NAME.fullmatch(text) is not None
