"""The time when this process began to import test files. The pytest plugin imports this module before any of them."""

from __future__ import annotations

import time

BEGAN = time.time_ns()
"""Nanoseconds since the epoch."""
