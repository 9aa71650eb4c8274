"""The bits of a quantised model's activations and weights."""

from __future__ import annotations

from typing import Literal

Scheme = Literal["a8w8", "a16w8"]
"""Bits of activations and weights."""
