"""Times on the monotonic clock."""

from __future__ import annotations

import time


class Deadline:
    """A moment at which a wait must end."""

    def __init__(self, seconds: float) -> None:
        """Set the deadline `seconds` from now."""
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether the deadline has passed."""
        return self.remaining == 0.0

    def check(self) -> None:
        """Raise TimeoutError once the deadline has passed."""
        if self.passed:
            raise TimeoutError("the deadline has passed")
