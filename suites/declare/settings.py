"""The settings of a session. Imported at collection, so it imports little."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SessionSettings:
    """The settings that apply to all tests of a session.

    Attributes:
        target: where the NPU profiles run; None to compile only.
        memory_mode: Vela's name of the mode; None for the NPU's default.
        timeout: wall seconds of one run on the target.
        strict: fail on missing waits in command streams.
        strict_board: fail on what a real board may not forgive.
        record: folder to keep the answers of targets and the reference model in.
        replay: folder of such answers, which are judged in place of new ones.
        root: the project's folder; recordings name files relative to it.
    """

    target: str | None = "virtual"
    memory_mode: str | None = None
    timeout: float = 120.0
    strict: bool = False
    strict_board: bool = False
    record: Path | None = None
    replay: Path | None = None
    root: Path = Path()
