"""Worker processes: every item has a result, whatever becomes of the process that was at it."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from ethos_hil.suites.lab.crew import Crew


@dataclass(frozen=True)
class Deeds:
    """A job whose items say what they do."""

    deeds: tuple[str, ...]

    @property
    def count(self) -> int:
        return len(self.deeds)

    def prepare(self) -> Callable[[int], tuple[str, str]]:
        return lambda item: (self.deeds[item], do(self.deeds[item]))

    def lost(self, item: int, reason: str) -> tuple[str, str]:
        return self.deeds[item], reason


def do(deed: str) -> str:
    """Do it."""
    match deed:
        case "exit":
            os._exit(3)
        case "crash":
            ctypes.string_at(0)
        case "hang":
            time.sleep(1000)
        case "raise":
            raise ZeroDivisionError("oh")
    return f"by {os.getpid()}"


def test_an_item_that_is_lost_costs_no_other() -> None:
    results = list(Crew(2, 1.0).run([Deeds(("a", "exit", "b", "crash", "c", "hang", "d", "raise", "e"))] * 2))
    assert len(results) == 18
    for deed in "abcde":
        assert [text.startswith("by ") for name, text in results if name == deed] == [True, True]
    reasons = {name: text for name, text in results if len(name) > 1}
    assert reasons["exit"] == "the process ended with status 3: it said nothing"
    assert reasons["crash"].startswith("the process ended with signal 11: File")
    assert "test_crew.py" in reasons["crash"]
    assert reasons["hang"] == "no end within 1 seconds"
    assert reasons["raise"].startswith("ZeroDivisionError: oh (test_crew.py:")
