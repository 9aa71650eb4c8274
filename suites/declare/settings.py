"""What a session asks of each of its tests. Imported at collection, so it imports little."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SessionSettings:
    """What is asked of a whole session.

    Attributes:
        target: where the NPU profiles run; None for nowhere: then everything is compiled only.
        memory_mode: by Vela's name; None for the NPU's default.
        timeout: wall seconds of one run on the target.
        strict: fail on missing waits in command streams.
        record: folder to keep what targets and the reference model answer in.
        replay: folder of such answers, to be judged in place of new ones.
        root: of the project, which recordings name files relative to.
    """

    target: str | None = "virtual"
    memory_mode: str | None = None
    timeout: float = 120.0
    strict: bool = False
    record: Path | None = None
    replay: Path | None = None
    root: Path = Path()
