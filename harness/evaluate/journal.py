"""What a run folder keeps of an evaluation: a record of each chunk of items, and the scores of its items.

The data set is read again when it is resumed or put together; a digest says whether its inputs are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ethos_hil.base.ending import is_settled
from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.question import Question
from ethos_hil.base.record import Record
from ethos_hil.base.typed_json import from_json
from ethos_hil.base.value_digest import digest_in_memory
from ethos_hil.harness.campaign.engine import CampaignCrew, CrewAnswer, read_more, set_aside
from ethos_hil.harness.campaign.place import OpenRun
from ethos_hil.harness.campaign.planned import Planned, share_of, write_plan
from ethos_hil.harness.campaign.recorded import final_answers
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.evaluate.board_worker import Chunk, DeviceAnswers
from ethos_hil.harness.evaluate.metric import ItemScores
from ethos_hil.harness.terminal.progress import Silent

_SHOWN = 5
"""How many chunks without an answer one line names."""


@dataclass(frozen=True)
class KeptChunk:
    """What is kept of a chunk beside its record.

    Attributes:
        inputs: digest of its inputs.
        items: the scores of each.
        cycles, cycle_provenance, device_seconds, reference_seconds: as in `DeviceAnswers`.
    """

    inputs: str
    items: tuple[ItemScores, ...]
    cycles: tuple[int, ...]
    cycle_provenance: str
    device_seconds: float
    reference_seconds: float


@dataclass
class EvaluationJournal:
    """The run folders of an evaluation.

    Attributes:
        run: the folders.
        question: what is asked of each chunk.
        shard: the part that is asked here; None for all.
        plan: the chunks that were read, of the shard.
        lost: those that have no answer where none is asked for: shards are put together.
    """

    run: OpenRun
    question: Question
    shard: Shard | None = None
    plan: list[Planned] = field(default_factory=list)
    lost: list[Planned] = field(default_factory=list)

    @cached_property
    def _known(self) -> dict[str, tuple[Record, KeptChunk]]:
        """The chunks that need not be asked again, by the digests of what is planned."""
        if self.run.campaign is not None:
            set_aside(self.run.campaign.folder, None, is_settled)
        known = {}
        for folder in self.run.folders:
            more = read_more(folder)
            for digest, record in final_answers(folder).items():
                if digest in more:
                    known[digest] = record, from_json(KeptChunk, more[digest]["chunk"])
        return known

    def takes(self, chunk: Chunk) -> bool:
        """Return whether a chunk that was read is of this shard, and has an answer or may be asked."""
        planned = self._planned(chunk)
        if not share_of((planned,), self.shard):
            return False
        self.plan.append(planned)
        if self.run.campaign is not None or planned.digest in self._known:
            return True
        self.lost.append(planned)
        return False

    def find(self, chunk: Chunk) -> tuple[Record, KeptChunk] | None:
        """Return the record of a chunk that was answered before, and what is kept of it; or None.

        Raises:
            UsageError: it was of other inputs.
        """
        known = self._known.get(self._planned(chunk).digest)
        if known is not None and known[1].inputs != _digest(chunk):
            raise UsageError(
                f"{chunk} of the data set are not those of the run: their inputs are others",
                hint="a data set that is resumed or divided has to give the same items each time",
            )
        return known

    def keep(self, chunk: Chunk, answers: DeviceAnswers, items: Sequence[ItemScores]) -> None:
        """Keep the answers to a chunk. Raises OSError."""
        assert self.run.campaign is not None
        more = {
            "inputs": _digest(chunk),
            "items": [item.to_json() for item in items],
            "cycles": answers.cycles,
            "cycle_provenance": answers.cycle_provenance,
            "device_seconds": answers.device_seconds,
            "reference_seconds": answers.reference_seconds,
        }
        crew = CampaignCrew(self.run.campaign.run_folder, 1, Silent())
        crew.keep(1, self._planned(chunk), CrewAnswer(answers.record, {"chunk": more}))

    def finish(self) -> ToolError | None:
        """Write the plan, which is known whole when the data set was read. Return what is missing, as an error."""
        if self.run.campaign is not None:
            write_plan(self.run.campaign.folder, self.plan, self.run.campaign.state.shard)
        answers = self.run.answers(self.plan)
        problems = [*answers.problems, *(f"{planned.more} have no answer" for planned in answers.lost)]
        if not problems:
            return None
        return ToolError(
            f"the evaluation is not whole: {'; '.join(problems[:_SHOWN])}", hint="ask again what is missing"
        )

    def _planned(self, chunk: Chunk) -> Planned:
        return Planned(self.question, self.question.label, more=str(chunk))


def _digest(chunk: Chunk) -> str:
    return digest_in_memory(chunk.input_sets)[:16]
