"""What the answers of a night depend on besides its plan: a night is of one state of all of it."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from ethos_hil.harness.tool_state import tool_state
from ethos_hil.results import environment

_SECONDS = 60


def made_with(folder: Path) -> dict[str, str]:
    """Return versions, digests of our code and the firmware, and the state of the git work tree of a folder.

    Of files that git does not track nothing is known.
    """
    commit = environment.commit(folder)
    changes = _changes(folder) if commit["dirty"] else ""
    return {**tool_state(), "commit": str(commit["commit"] or ""), "changes since that commit": changes}


def _changes(folder: Path) -> str:
    """Return a digest of what is different from the commit, in files that git tracks; "unknown" where git fails."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "diff", "HEAD", "--binary"], capture_output=True, check=True, timeout=_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return hashlib.sha256(done.stdout).hexdigest()[:16]
