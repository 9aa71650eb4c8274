"""Digests of what a question refers to beyond its text: files, arrays and functions in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ethos_hil.base.files import digest_of_file

if TYPE_CHECKING:
    import numpy as np


def digest_of_readable(path: Path) -> str:
    """Return the digest of a file; "" where it cannot be read: whoever needs it says so."""
    try:
        return digest_of_file(path)
    except OSError:
        return ""


def digest_in_memory(value: Any) -> str:
    """Return a digest of arrays, or of what else a field has in memory."""
    digest = hashlib.sha256()
    for array in _arrays(value):
        digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    if callable(value):
        digest.update(f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}".encode())
    return digest.hexdigest()


def _arrays(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _arrays(item)
    elif hasattr(value, "shape"):
        import numpy as np

        yield np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
