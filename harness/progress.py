"""What a run says of its progress, and who listens."""

from __future__ import annotations

from typing import Protocol


class Reporter(Protocol):
    """Takes the news of a run."""

    def stage(self, text: str) -> None:
        """A new stage begins."""

    def step(self, done: int, total: int) -> None:
        """Within the stage, `done` of `total` are finished."""


class Silent:
    """Says nothing."""

    def stage(self, text: str) -> None:
        """Nothing."""

    def step(self, done: int, total: int) -> None:
        """Nothing."""
