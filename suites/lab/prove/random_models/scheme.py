"""How random networks are quantised."""

from __future__ import annotations

from typing import Literal

DrawnScheme = Literal["a8w8", "a16w8", "mixed"]
"""Mixed: a8w8 with 16 bits in one or two layers."""
