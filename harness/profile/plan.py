"""What a profile adds to the run plan."""

from __future__ import annotations

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.harness.image.formats import DeviceMemoryMode
from ethos_hil.harness.image.pack import DEFAULT_EVENTS, CutAt
from ethos_hil.harness.profile.options import ProfileMethod, default_repeat, event_numbers, event_sets, profile_method
from ethos_hil.harness.profile.prefix import cuts
from ethos_hil.harness.targets.base import Target
from ethos_hil.lowering.artifact import Artifact


@dataclass(frozen=True)
class ProfilePlan:
    """A profile of one program on one target.

    Attributes:
        method: where the cycles come from.
        event_sets: PMU events to count, each set in executions of its own.
        npu: the target's NPU.
        repeat: executions with each event set.
        mode: where the NPU's memories are.
    """

    method: ProfileMethod
    event_sets: tuple[tuple[int, ...], ...]
    npu: EthosU
    repeat: int
    mode: DeviceMemoryMode = DeviceMemoryMode.SHARED_SRAM

    @classmethod
    def of(cls, question: Question, board: Target) -> ProfilePlan:
        """Return the plan on a target.

        Raises:
            UsageError: the target cannot do it, or no event has such a name.
        """
        npu = EthosU.parse(board.npu)
        method = profile_method(question, board)
        numbers = event_numbers(question.events)
        sets = event_sets(numbers, npu) if method is ProfileMethod.PREFIX else (DEFAULT_EVENTS,)
        return cls(method, sets, npu, question.repeat or default_repeat(board))

    @property
    def executions(self) -> int:
        """Executions of each input set."""
        return self.repeat * len(self.event_sets)

    def cuts(self, artifact: Artifact) -> tuple[CutAt, ...]:
        """Return the cuts in the artifact's command streams."""
        return cuts(artifact, self.npu) if self.method is ProfileMethod.PREFIX else ()
