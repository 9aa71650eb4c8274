"""The wall seconds of a run, by what was being done."""

from __future__ import annotations

import time

from ethos_hil.base.record import Metric
from ethos_hil.lowering.conditions.progress import phase_of

_PHASES = {
    "loading the model": "loading",
    "exporting": "exporting",
    "loading ExecuTorch": "importing",
    "quantising": "quantising",
    "compiling with Vela": "vela",
    "bounding the distance from PyTorch": "bounding",
}
"""Names of a lowering's stages in records; of the others it is "lowering"."""


class Stopwatch:
    """Adds up the wall seconds of each phase. At any moment one phase goes on.

    Attributes:
        seconds: the phases in the order in which they began.
    """

    def __init__(self, phase: str, began: float | None = None) -> None:
        """Begin the first phase, now or on the monotonic clock at `began`."""
        self.seconds: dict[str, float] = {}
        self._began = self._since = time.monotonic() if began is None else began
        self._phase = phase

    def begin(self, phase: str) -> None:
        """End the phase that goes on, and begin another one."""
        now = time.monotonic()
        self.seconds[self._phase] = self.seconds.get(self._phase, 0.0) + now - self._since
        self._phase, self._since = phase, now

    def begin_stage(self, text: str) -> None:
        """Begin the phase of a stage of a lowering, by `ethos_hil.lowering.conditions.progress.Progress`'s words."""
        self.begin(_PHASES.get(phase_of(text), "lowering"))

    def metrics(self) -> tuple[Metric, ...]:
        """End the last phase. Return a metric for each, and "total_seconds", which is their sum."""
        self.begin("")
        total = {"total": self._since - self._began}
        return tuple(
            Metric(f"{phase}_seconds", round(value, 4), "s", "host")
            for phase, value in {**self.seconds, **total}.items()
        )
