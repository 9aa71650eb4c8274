"""The chunks of a data set: planned, answered on a board in a process of the crew, and kept in the run folder.

The data set is read again when an evaluation is resumed or put together; a digest says whether its inputs are the same.
"""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ethos_hil.base.dataclasses import dataclass, field, replace
from ethos_hil.base.errors import EthosHilError, ToolError, UsageError, unforeseen
from ethos_hil.base.judge import is_settled
from ethos_hil.base.question import Question
from ethos_hil.base.record import Record
from ethos_hil.base.typed_json import from_json
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.campaign.engine import CampaignCrew, CrewAnswer, PlannedJob, read_more, set_aside
from ethos_hil.harness.campaign.place import OpenRun
from ethos_hil.harness.campaign.planned import Planned, share_of, write_plan
from ethos_hil.harness.campaign.recorded import final_answers
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.evaluate.metric import ItemScores
from ethos_hil.harness.image.inputs import InputSet
from ethos_hil.harness.terminal.progress import Silent
from ethos_hil.lowering.artifact import Artifact

if TYPE_CHECKING:
    from ethos_hil.harness.virtual.board import BoardPool

_SHOWN = 5
"""How many chunks without an answer one line names."""


@dataclass(frozen=True)
class Chunk:
    """Input sets that are run in one boot, from item `first` on."""

    first: int
    input_sets: tuple[InputSet, ...]

    def __str__(self) -> str:
        return _items(self.first, len(self.input_sets))

    @cached_property
    def digest(self) -> str:
        """What tells its inputs from others."""
        digest = hashlib.sha256()
        for array in (array for inputs in self.input_sets for array in inputs):
            digest.update(f"{array.dtype} {array.shape}\0".encode() + array.tobytes())
        return digest.hexdigest()[:16]


def _items(first: int, count: int) -> str:
    return f"item {first}" if count == 1 else f"items {first} to {first + count - 1}"


@dataclass(frozen=True, kw_only=True)
class PlannedChunk(Planned):
    """A chunk that is asked."""

    chunk: Chunk


@dataclass(frozen=True)
class KeptChunk:
    """What is kept of a chunk beside its record.

    Attributes:
        inputs: digest of its inputs.
        items: the scores of each.
        cycles: of the NPU, for each input set.
        cycle_provenance: where these are from; "" if they are not known.
        device_seconds, reference_seconds: wall time of the board, and of the reference model.
    """

    inputs: str
    items: tuple[ItemScores, ...]
    cycles: tuple[int, ...]
    cycle_provenance: str
    device_seconds: float
    reference_seconds: float


@dataclass(frozen=True, kw_only=True)
class ChunkAnswer(CrewAnswer):
    """What the device answered to a chunk.

    Attributes:
        outputs: the outputs of each input set.
        equal: whether these are tosa_reference_model's, bit for bit.
        kept: what is kept of it; its items have no scores yet.
    """

    outputs: tuple[tuple[np.ndarray, ...], ...]
    equal: tuple[bool, ...]
    kept: KeptChunk


@dataclass(frozen=True, kw_only=True)
class FailedChunk(CrewAnswer):
    """Why a chunk has no answer: what its run raised, or how its process ended."""

    error: EthosHilError


@dataclass(frozen=True, kw_only=True)
class ChunkJob(PlannedJob[PlannedChunk]):
    """A chunk, and the program that answers it.

    Attributes:
        program: an `Artifact`, pickled once for all chunks.
    """

    program: bytes

    def answers(self, pool: BoardPool) -> Iterator[CrewAnswer]:
        """Run it."""
        for planned in self.planned:
            try:
                yield _run(_program(self.program), planned, pool)
            except (Exception, SystemExit) as error:
                yield self.refuse(planned, unforeseen(error))

    def refuse(self, planned: PlannedChunk, error: EthosHilError) -> FailedChunk:
        """Return the answer to a chunk that ended in an error."""
        if error.kind is FailureKind.INTERNAL:  # an error of the board or of an input says itself where it is
            error = error.replace(message=f"{planned.chunk}: {error.message}")
        return FailedChunk(super().refuse(planned, error).record, error=error)

    def __str__(self) -> str:
        return str(self.planned[0].chunk)


@lru_cache(maxsize=1)
def _program(pickled: bytes) -> Artifact:
    """Return the program of a process, the same object for all chunks: it keeps what was made of it."""
    artifact: Artifact = pickle.loads(pickled)
    return artifact


def _run(artifact: Artifact, planned: PlannedChunk, pool: BoardPool) -> ChunkAnswer:
    from ethos_hil.harness.ask.place import target_of
    from ethos_hil.harness.run import run_artifact
    from ethos_hil.harness.verdict.verify import same_bits

    began = time.perf_counter()
    question = replace(planned.question, inputs=planned.chunk.input_sets)
    report = run_artifact(artifact, target_of(planned.question, pool=pool), question)
    spent = time.perf_counter() - began
    runs = sorted(report.outcome.runs, key=lambda run: run.input_set)
    pairs = list(zip(runs, report.references, strict=True))
    equal = tuple(
        all(same_bits(output, wanted) for output, wanted in zip(run.outputs, reference.outputs, strict=True))
        for run, reference in pairs
    )
    on_device = report.outcome.seconds.get("total", 0.0)
    counted = report.record.metric("npu_cycles")
    kept = KeptChunk(
        planned.chunk.digest,
        (),
        tuple(run.cycles for run in runs) if counted is not None else (),
        counted.provenance if counted is not None else "",
        on_device,
        spent - on_device,
    )
    return ChunkAnswer(report.record, outputs=tuple(tuple(run.outputs) for run in runs), equal=equal, kept=kept)


@dataclass
class EvaluationJournal:
    """The run folders of an evaluation.

    Attributes:
        run: the folders.
        question: what is asked of each chunk.
        shard: the part that is asked here; None for all.
        plan: the chunks that were read, of the shard.
    """

    run: OpenRun
    question: Question
    shard: Shard | None = None
    plan: list[Planned] = field(default_factory=list)

    def foresee(self, count: int, size: int) -> None:
        """Write the plan of a data set that says how many items it has, before anything runs.

        Args:
            count: how many items.
            size: items of a chunk.

        Raises:
            OSError: it cannot be written.
        """
        ranges = [_items(first, min(size, count - first)) for first in range(0, count, size)]
        self._write(share_of([self._planned(items) for items in ranges], self.shard))

    def _write(self, plan: Iterable[Planned]) -> None:
        if self.run.campaign is not None:
            write_plan(self.run.campaign.folder, plan, self.run.campaign.state.shard)

    def _planned(self, items: str) -> Planned:
        return Planned(self.question, self.question.label, more=items)

    @cached_property
    def _known(self) -> dict[str, tuple[Record, KeptChunk]]:
        """The chunks that need not be asked again, by the digests of what is planned."""
        if self.run.campaign is not None:
            set_aside(self.run.campaign.folder, is_settled)
        known = {}
        for folder in self.run.folders:
            more = read_more(folder)
            for digest, record in final_answers(folder).items():
                if digest in more:
                    known[digest] = record, from_json(KeptChunk, more[digest]["chunk"])
        return known

    def takes(self, chunk: Chunk) -> bool:
        """Return whether a chunk that was read is of this shard, and has an answer or may be asked."""
        planned = self._planned(str(chunk))
        if not share_of((planned,), self.shard):
            return False
        self.plan.append(planned)
        return self.run.campaign is not None or planned.digest in self._known

    def find(self, chunk: Chunk) -> tuple[Record, KeptChunk] | None:
        """Return the record of a chunk that was answered before, and what is kept of it; or None.

        Raises:
            UsageError: it was of other inputs.
        """
        known = self._known.get(self._planned(str(chunk)).digest)
        if known is not None and known[1].inputs != chunk.digest:
            raise UsageError(
                f"{chunk} of the data set are not those of the run: their inputs are others",
                hint="a data set that is resumed or divided has to give the same items each time",
            )
        return known

    def ask(
        self,
        chunks: Iterable[Chunk],
        artifact: Artifact,
        processes: int,
        keep: Callable[[Chunk, CrewAnswer], None],
        tick: Callable[[], bool | None],
    ) -> None:
        """Ask chunks as they are drawn. Where shards are put together there are none to ask.

        Args:
            chunks: what to ask.
            artifact: the program.
            processes: how many, each with a board.
            keep: takes each answer; called from one thread at a time.
            tick: see `WorkerCrew.run`.

        Raises:
            OSError: a log cannot be written.
        """
        if self.run.campaign is None:
            assert not list(chunks)
            return
        program = pickle.dumps(artifact)
        plain = replace(self.question, model=self.question.label, inputs=None)
        jobs = (
            ChunkJob((PlannedChunk(plain, plain.label, more=str(chunk), chunk=chunk),), program=program)
            for chunk in chunks
        )
        crew = CampaignCrew(self.run.campaign.run_folder, processes, Silent())
        crew.run(jobs, lambda _, planned, answer: keep(planned.chunk, answer), tick)

    def keep(self, chunk: Chunk, answer: CrewAnswer, items: Sequence[ItemScores] = ()) -> None:
        """Keep the answer to a chunk, with the scores of its items. Raises OSError."""
        assert self.run.campaign is not None
        more = {}
        if isinstance(answer, ChunkAnswer):
            more = {"chunk": {**vars(answer.kept), "items": [item.to_json() for item in items]}}
        crew = CampaignCrew(self.run.campaign.run_folder, 1, Silent())
        crew.keep(1, self._planned(str(chunk)), CrewAnswer(answer.record, more))

    def finish(self) -> ToolError | None:
        """Write the plan as the data set was read. Return what is missing, as an error."""
        self._write(self.plan)
        answers = self.run.answers(self.plan)
        problems = [*answers.problems, *(f"{planned.more} have no answer" for planned in answers.lost)]
        if not problems:
            return None
        return ToolError(
            f"the evaluation is not whole: {'; '.join(problems[:_SHOWN])}", hint="ask again what is missing"
        )
