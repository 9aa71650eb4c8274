"""A target that answers as it did when it was recorded."""

from __future__ import annotations

from dataclasses import dataclass

from ethos_hil.harness.image.pack import Image
from ethos_hil.harness.link.outcome import Outcome, Progress
from ethos_hil.harness.targets.base import Capability, Target


@dataclass(frozen=True)
class TargetFacts:
    """The facts about a target that judging its answer needs. See `Target`."""

    name: str
    kind: str
    soc: str
    npu: str
    cycle_provenance: str
    version: str
    capabilities: tuple[str, ...]

    @classmethod
    def of(cls, target: Target) -> TargetFacts:
        """Return the facts about a target."""
        able = tuple(sorted(capability.value for capability in target.capabilities()))
        return cls(target.name, target.kind, target.soc, target.npu, target.cycle_provenance, target.version, able)


class RecordedTarget(Target):
    """A target that answers as it did when it was recorded."""

    def __init__(self, board: TargetFacts, outcome: Outcome) -> None:
        self.name, self.kind, self.soc, self.npu = board.name, board.kind, board.soc, board.npu
        self.cycle_provenance, self.version = board.cycle_provenance, board.version
        self._capabilities = frozenset(map(Capability, board.capabilities))
        self._outcome = outcome

    def capabilities(self) -> frozenset[Capability]:
        """Return the recorded target's capabilities."""
        return self._capabilities

    def _load(self, image: Image) -> None:
        """Do nothing: nothing is loaded."""

    def _run(self, image: Image, *, timeout: float, progress: Progress | None) -> Outcome:
        """Return the recorded outcome."""
        return self._outcome

    def _check_answer(self, outcome: Outcome, image: Image) -> None:
        """Accept the answer of another run: that is what was recorded."""

    def _reset(self) -> None:
        """Do nothing: nothing was started."""
