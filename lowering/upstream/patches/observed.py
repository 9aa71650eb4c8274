"""A function of upstream's, with somebody watching."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]


def observed(function: Function, watching: Callable[[Function], Function]) -> Function:
    """What `watching` makes of upstream's function: one that calls it and notes what goes in and comes out."""
    return watching(function)
