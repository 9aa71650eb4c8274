"""The folder and the limit of the cache."""

from __future__ import annotations

import os
from pathlib import Path

from ethos_hil.base import byte_size

CACHE_VARIABLE = "ETHOS_HIL_CACHE"
LIMIT_VARIABLE = "ETHOS_HIL_CACHE_LIMIT"
DEFAULT_LIMIT = 10 * 10**9
"""Limit without $ETHOS_HIL_CACHE_LIMIT, bytes."""


def cache_folder() -> Path:
    """Return $ETHOS_HIL_CACHE, else the user's cache folder."""
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("ethos-hil")).absolute()


def cache_limit() -> int:
    """Return the largest size of the entries, bytes: $ETHOS_HIL_CACHE_LIMIT, else DEFAULT_LIMIT.

    Raises:
        UsageError: the variable is not a size.
    """
    given = os.environ.get(LIMIT_VARIABLE)
    return byte_size.parse(given, LIMIT_VARIABLE) if given else DEFAULT_LIMIT


def prepare_torch() -> None:
    """Set what torch reads from the environment when it is imported, unless the user did. Call it before that.

    Its threads wait asleep. GNU's OpenMP lets them spin, for milliseconds after each operator; where other processes
    want the processors, lowering a network then takes twice the CPU time.

    Its compiled code is kept in the cache. torch 2.13 makes that folder when torch.export is imported
    (torch/_inductor/runtime/cache_dir_utils.py), by default in TMPDIR, and leaves it there.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    folder = cache_folder() / "torchinductor"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # such as a cache that cannot be written; torch could not be imported then
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder))
