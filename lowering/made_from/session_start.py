"""The time when this process began to import test files. The pytest plugin imports this module before any of them."""

from __future__ import annotations

import time

_SLACK = 50_000_000
"""File systems take the time of a change from a clock that moves in steps: a change may look that much older, ns."""
BEGAN = time.time_ns() - _SLACK
"""Nanoseconds since the epoch."""
