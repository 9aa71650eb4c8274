"""The settings of a session. Imported at collection, so it imports little."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ethos_hil.base.question import NOWHERE, Question

ANY_TEST = Question("", allow_cpu_only=True)
"""What is asked of any test by default: its declaration says what is on the NPU."""


@dataclass(frozen=True)
class SessionSettings:
    """The settings that apply to all tests of a session.

    Attributes:
        question: what every test asks, but for the test and its NPU. What is on the NPU a test declares itself.
        record: folder to keep the answers of targets and the reference model in.
        replay: folder of such answers, which are judged in place of new ones.
        root: the project's folder; recordings name files relative to it.
    """

    question: Question = ANY_TEST
    record: Path | None = None
    replay: Path | None = None
    root: Path = Path()

    @property
    def compile_only(self) -> bool:
        """Whether nothing runs."""
        return self.question.target == NOWHERE
