"""The connection of one debugger to a simulated probe: what came in, and what goes back."""

from __future__ import annotations

from abc import ABC, abstractmethod


class FrontEnd(ABC):
    """A protocol between a debugger's program and its probe."""

    @abstractmethod
    def feed(self, data: bytes) -> bytes:
        """Take what came, in pieces of any size, and return what goes back."""

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether the debugger has said that it leaves."""
