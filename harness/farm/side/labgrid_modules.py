"""labgrid's modules. They are imported late, so that an answer can say that there are none."""

from __future__ import annotations

import importlib
from typing import Any


def labgrid(module: str) -> Any:
    """Return a module of labgrid."""
    return importlib.import_module(f"labgrid.{module}")
