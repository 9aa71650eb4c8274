"""From what a declaration names to modules and tensors: operator tests and benchmarks build theirs with it.

Its modules import torch, so they are imported late. Who keeps what was made of a declaration keeps it for this source
of theirs only.
"""

from __future__ import annotations

from pathlib import Path

from ethos_hil.lowering.cache.versions import source_digest

_FOLDER = Path(__file__).parent
_BEGAN = source_digest(_FOLDER)


def declared_digest() -> str:
    """Return the SHA-256 of the modules that make what is declared, as they were when this process started to use them;
    hexadecimal.
    """
    return _BEGAN


def is_declared_unchanged() -> bool:
    """Return whether the modules on the disk are still those. They are imported late, so they may be newer."""
    return source_digest(_FOLDER) == _BEGAN
