"""What the answers of a night depend on besides its plan: a night is of one state of all of it."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ethos_hil.harness.nightly.recorded import firmware_id, lowering_id
from ethos_hil.harness.npu.timing.model_id import timing_model_id
from ethos_hil.harness.socs.registry import SOCS
from ethos_hil.results import environment

_SECONDS = 60


def made_with(folder: Path) -> dict[str, str]:
    """Return versions, digests of our code and the firmware, and the state of the git work tree of a folder.

    Of files that git does not track nothing is known.
    """
    found = {f"{name} version": version for name, version in environment.versions().items()}
    found |= {"lowering": lowering_id(), "timing model": timing_model_id()}
    found |= {f"firmware for {soc.name}": firmware_id(soc.name) for soc in SOCS}
    commit = environment.commit(folder)
    changes = _changes(folder) if commit["dirty"] else ""
    return {**found, "commit": str(commit["commit"] or ""), "changes since that commit": changes}


def difference(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return what is different first, in words; "" where nothing is."""
    for name in dict.fromkeys((*before, *now)):
        old, new = before.get(name, ""), now.get(name, "")
        if old != new:
            return f"{name} was {old or 'none'} and is {new or 'none'}"
    return ""


def _changes(folder: Path) -> str:
    """Return a digest of what is different from the commit, in files that git tracks; "unknown" where git fails."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "diff", "HEAD", "--binary"], capture_output=True, check=True, timeout=_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return hashlib.sha256(done.stdout).hexdigest()[:16]
