"""A model on a data set: the device's answers, PyTorch's in float and quantised, and how they score."""

from __future__ import annotations

import itertools
import os
import statistics
import time
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.base.console import add_row, right, table_of
from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.errors import EthosHilError, UsageError
from ethos_hil.base.plain_text import one_line
from ethos_hil.base.question import Question
from ethos_hil.base.record import TargetInfo, json_number
from ethos_hil.base.verdict import Failure
from ethos_hil.harness.ask.lower_question import check_question, lower_question
from ethos_hil.harness.ask.place import target_of
from ethos_hil.harness.campaign.engine import CrewAnswer
from ethos_hil.harness.campaign.place import ASIDE, RunPlace
from ethos_hil.harness.campaign.planned import digest_of_model
from ethos_hil.harness.campaign.run_folder import EVALUATE, CampaignSubject, Facet
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.evaluate.chunks import Chunk, ChunkAnswer, EvaluationJournal, FailedChunk
from ethos_hil.harness.evaluate.dataset import DataSet, Item
from ethos_hil.harness.evaluate.metric import DEVICE, FLOAT, SOURCES, ItemMetric, ScoreTally
from ethos_hil.harness.subjects.process import SubjectLayers, SubjectModules
from ethos_hil.harness.terminal.progress import Reporter, Silent
from ethos_hil.harness.verdict.findings import describe
from ethos_hil.harness.verdict.tool_state import tool_state
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.conditions.process import one_torch_thread
from ethos_hil.lowering.lower import host_modules
from ethos_hil.lowering.model.torch_model import HostModules
from ethos_hil.lowering.program.program_file import ProgramFile
from ethos_hil.lowering.upstream.layer_errors import LayerError, LayerErrors

_CHUNK_ITEMS = 64
_CHUNK_BYTES = 8 << 20
"""Inputs of one boot at most: a boot costs as much as a few small inferences, and memory is a board's."""
_MOST_JOBS = 64
_LAYER_ITEMS = 16
"""Items whose layers are compared: PyTorch computes each of them three times more."""


@dataclass(frozen=True)
class EvaluationOrder:
    """An evaluation, as the user ordered it.

    Attributes:
        question: the model, the NPU, the target and how to lower; `timeout` is that of one boot.
        data: the data set, or the user's function that returns it.
        metric: "top1", "top5", "mae" or a function; None for the one that suits the first label.
        limit: items at most; None for all.
        jobs: boards at a time; None for as many as there are processors, or one where the target is not a simulator.
    """

    question: Question
    data: str | DataSet
    metric: str | ItemMetric | None = None
    limit: int | None = None
    jobs: int | None = None

    def check(self) -> None:
        """Raise UsageError where a number is impossible."""
        self.question.check()
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"--limit is {self.limit}", hint="give 1 or more, or leave it out for all items")
        if self.jobs is not None and not 1 <= self.jobs <= _MOST_JOBS:
            raise UsageError(f"--jobs is {self.jobs}", hint=f"give a number from 1 to {_MOST_JOBS}")


@dataclass
class Evaluation:
    """What came of an evaluation.

    Attributes:
        order: what was asked.
        artifact: the program.
        target: where it ran.
        tally: what was counted.
        jobs: boards at a time.
        seconds: wall time of all items together, after lowering.
        device_seconds, reference_seconds: wall time of the boards, and of tosa_reference_model, summed over the boards.
        host_seconds: of PyTorch, float and quantised.
        cycles: NPU cycles of each item, where the target counts them.
        cycle_provenance: where they are from.
        failure: the first answer that is not tosa_reference_model's, or the first that is not near PyTorch's.
        layers: what each layer's quantisation costs, over the first items; the worst first.
        stopped: the error that ended it before the data set did.
        nothing_here: whether none of the items is of the shard that was asked for.
    """

    order: EvaluationOrder
    artifact: Artifact
    target: TargetInfo
    tally: ScoreTally
    jobs: int
    seconds: float = 0.0
    device_seconds: float = 0.0
    reference_seconds: float = 0.0
    host_seconds: float = 0.0
    cycles: list[int] = field(default_factory=list)
    cycle_provenance: str = ""
    failure: Failure | None = None
    stopped: EthosHilError | None = None
    layers: tuple[LayerError, ...] = ()
    notes: tuple[str, ...] = ()
    nothing_here: bool = False

    @property
    def verified(self) -> bool:
        """Whether every item was answered, and as tosa_reference_model answers it."""
        some = self.nothing_here or self.tally.items > 0
        return self.stopped is None and self.failure is None and some and self.tally.items == self.tally.equal

    @property
    def median_cycles(self) -> int | None:
        """The median of the NPU's cycles, or None."""
        return statistics.median_low(self.cycles) if self.cycles else None


def evaluate(order: EvaluationOrder, reporter: Reporter | None = None, place: RunPlace = ASIDE) -> Evaluation:
    """Run a data set through a model on the target and on the host.

    Args:
        order: what to evaluate.
        reporter: receives the progress.
        place: where answers are kept, and which of them are made here.

    Returns:
        The scores. An error that comes after the first item does not lose them: `Evaluation.stopped` has it.

    Raises:
        UsageError, ToolError, TargetError: as `ethos_hil.harness.run.run`, before the first item.
    """
    reporter = reporter or Silent()
    order.check()
    question = order.question
    check_question(question)
    npu = question.npu_name
    board = target_of(question)
    jobs = order.jobs or ((os.cpu_count() or 1) if board.kind == "virtual" else 1)
    data = DataSet.load(order.data) if isinstance(order.data, str) else order.data
    metric = ItemMetric.parse(order.metric) if isinstance(order.metric, str) else order.metric
    if question.is_program or isinstance(question.model, ProgramFile):
        raise UsageError(
            f"{question.label} is compiled, so there is no float model to compare with",
            hint="give the model it was made from, file.py:function or a .pt2",
        )
    what = f"Lowering {question.label} for {npu}"
    modules: dict[str, HostModules] = {}
    lowered = lower_question(
        question,
        needed=lambda stateful, repeat: not question.subject,
        progress=lambda text: reporter.stage(f"{what}: {text}"),
        hosts=modules.__setitem__,
    )
    model, artifact = lowered.model, lowered.artifact.of(question.method)
    if artifact.keeps_state:
        raise UsageError(
            f"{question.label} keeps state between calls, and the items of a data set are independent",
            hint="ethos-hil run --inputs runs a sequence",
        )
    hosts: HostModules | SubjectModules
    if question.subject:
        hosts = SubjectModules(question, artifact.method)
    else:
        assert model is not None
        hosts = modules.get(artifact.method) or host_modules(model, artifact.method, question, progress=reporter.stage)
    items = data.items(artifact.plan.input_tensors, order.limit)
    first = next(items, None)
    if first is None:
        raise UsageError(f"--data {data.name} has no items", hint="it is empty, or was read before")
    evaluation = Evaluation(
        order,
        artifact,
        describe(board),
        ScoreTally(metric or ItemMetric.for_label(first.label)),
        jobs,
        notes=(*lowered.notes_for(artifact.method), *artifact.notes),
    )
    total = min((count for count in (data.count, order.limit) if count is not None), default=None)
    reporter.stage(f"Evaluating on {board.name} {board.soc}")
    with place.opened(_subject(order, data.name, evaluation.tally.metric.name, place.shard)) as run:
        journal = EvaluationJournal(run, question, place.shard)
        loop = _Loop(evaluation, hosts, hosts.layers, data.name, reporter, total, journal)
        size = max(1, min(_CHUNK_ITEMS, _CHUNK_BYTES // max(1, sum(array.nbytes for array in first.inputs))))
        if data.count is not None:
            journal.foresee(min(data.count, order.limit or data.count), size)
        with one_torch_thread():  # the boards have the other processors
            loop.over(itertools.chain([first], items), size)
        if evaluation.stopped is None:
            evaluation.nothing_here = place.shard is not None and not journal.plan
            evaluation.stopped = journal.finish()
    evaluation.layers = tuple(loop.layers.worst_first()) if loop.layers is not None else ()
    return evaluation


def _subject(order: EvaluationOrder, data: str, metric: str, shard: Shard | None) -> CampaignSubject:
    facets = (
        Facet("model", digest_of_model(order.question.label), "is of another model, or it has changed"),
        Facet("data", f"{data} {digest_of_model(data)} {order.limit}", "is of other data, or they have changed"),
        Facet("metric", metric, "has another metric"),
    )
    return CampaignSubject(EVALUATE, order.question.digest, tool_state(), shard=str(shard or ""), facets=facets)


@dataclass
class _Loop:
    """Has the boards answer chunks, and PyTorch the same items meanwhile; counts them in the order of the data set."""

    found: Evaluation
    hosts: HostModules | SubjectModules
    layers: LayerErrors | SubjectLayers | None
    data: str
    reporter: Reporter
    total: int | None
    journal: EvaluationJournal
    items: dict[int, Item] = field(default_factory=dict)
    host: dict[int, dict[str, tuple[np.ndarray, ...]]] = field(default_factory=dict)
    answers: dict[int, tuple[Chunk, ChunkAnswer | FailedChunk | None]] = field(default_factory=dict)
    ended: bool = False

    def over(self, items: Iterator[Item], size: int) -> None:
        """Run all items, in chunks of a size. What ends it early is in `found.stopped`."""
        began = time.perf_counter()
        try:
            self.journal.ask(self._chunks(items, size), self.found.artifact, self.found.jobs, self._take, self._work)
            while self._work():
                pass
        except EthosHilError as error:
            self.found.stopped = error
        finally:
            self.found.seconds = time.perf_counter() - began

    def _chunks(self, items: Iterator[Item], size: int) -> Iterator[Chunk]:
        """Yield the chunks to ask. An error of the data set comes after the chunk of what was read before it."""
        while not self.ended:
            read: list[Item] = []
            try:
                for item in itertools.islice(items, size):  # what was read before an error stays
                    read.append(item)
            except EthosHilError as error:
                self.found.stopped = error
            if read:
                chunk = Chunk(read[0].number, tuple(item.inputs for item in read))
                if self.journal.takes(chunk):
                    self.items |= {item.number: item for item in read}
                    if self.journal.find(chunk) is None:
                        yield chunk
                    else:
                        self._know(chunk)
            if len(read) < size:
                return

    def _know(self, chunk: Chunk) -> None:
        """Take a chunk that was answered before. PyTorch has to answer only the items whose layers are compared."""
        for number in range(chunk.first, chunk.first + len(chunk.input_sets)):
            if self.layers is None or number >= _LAYER_ITEMS:
                self.host[number] = {}
        self.answers[chunk.first] = chunk, None
        self._count_answered()

    def _take(self, chunk: Chunk, answer: CrewAnswer) -> None:
        """Take the answer to a chunk; no other chunk is asked after an error."""
        assert isinstance(answer, ChunkAnswer | FailedChunk)
        self.ended = self.ended or isinstance(answer, FailedChunk)
        self.answers[chunk.first] = chunk, answer

    def _work(self) -> bool:
        """Count what is answered, and have PyTorch answer one item. Return whether it has another one."""
        self._count_answered()
        waiting = (item for number, item in self.items.items() if number not in self.host)
        item = next(waiting, None)
        if item is not None:
            self._ask_host(item)
        return item is not None

    def _count_answered(self) -> None:
        # In the order of the items, so that an item that ends the evaluation has all others counted.
        while (first := next(iter(self.items), -1)) in self.answers:
            self._count(*self.answers.pop(first))

    def _ask_host(self, item: Item) -> None:
        began = time.perf_counter()
        self.host[item.number] = self.hosts.answers(item.inputs)
        if self.layers is not None and item.number < _LAYER_ITEMS:
            self.layers.add(item.inputs)
        self.found.host_seconds += time.perf_counter() - began

    def _count(self, chunk: Chunk, answer: ChunkAnswer | FailedChunk | None) -> None:
        """Count a chunk by its answer; by what is kept of it where it was answered before."""
        if isinstance(answer, FailedChunk):
            self.journal.keep(chunk, answer)
            raise answer.error
        evaluation = self.found
        known = (answer.record, answer.kept) if answer is not None else self.journal.find(chunk)
        assert known is not None
        record, kept = known
        evaluation.device_seconds += kept.device_seconds
        evaluation.reference_seconds += kept.reference_seconds
        evaluation.cycles += kept.cycles
        evaluation.cycle_provenance = kept.cycle_provenance or evaluation.cycle_provenance
        evaluation.failure = evaluation.failure or record.failure
        if answer is None:
            for (_, _, what), scores in zip(self._answered(chunk), kept.items, strict=True):
                evaluation.tally.count(scores, what)
        else:
            answered = zip(self._answered(chunk), answer.outputs, answer.equal, strict=True)
            scored = [
                evaluation.tally.add(item, {**host, DEVICE: outputs}, equal=equal, what=what)
                for (item, host, what), outputs, equal in answered
            ]
            self.journal.keep(chunk, answer, scored)
        self.reporter.step(evaluation.tally.items, self.total or evaluation.tally.items + len(self.items))

    def _answered(self, chunk: Chunk) -> Iterator[tuple[Item, Mapping[str, tuple[np.ndarray, ...]], str]]:
        """Yield the items of a chunk, with PyTorch's answers and with what errors call them; they are done then."""
        for number in range(chunk.first, chunk.first + len(chunk.input_sets)):
            item = self.items.pop(number)
            if number not in self.host:
                self._ask_host(item)
            yield item, self.host.pop(number), f"--data {self.data}: item {number}"


SCHEMA_VERSION = 2
_WORST_LAYERS = 5


def document(result: Evaluation) -> dict[str, Any]:
    """Return it for programs; docs/formats.md describes it."""
    tally, question = result.tally, result.order.question
    failure = result.stopped.failure if result.stopped is not None else result.failure
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": "verified" if result.verified else "failed",
        "failure": None
        if failure is None
        else {"kind": failure.kind, "message": failure.message, "hint": failure.hint},
        "model": question.label,
        "npu": question.npu,
        "target": vars(result.target),
        "data": _data_name(result),
        "metric": tally.metric.name,
        "items": tally.items,
        "equal_to_reference": tally.equal,
        "scores": {source: tally.mean(source) for source in SOURCES},
        "agreement": {"-".join(pair): tally.agreement(*pair) for pair in combinations(SOURCES, 2)},
        "sqnr_db": {source: json_number(tally.sqnr(source)) for source in SOURCES if source != FLOAT},
        "integers": {"elements": tally.integers, "agree": dict(tally.equal_integers)},
        "layers": [{name: json_number(value) for name, value in vars(layer).items()} for layer in result.layers],
        "confusion": [[label, chosen, count] for (label, chosen), count in sorted(tally.confusion.items())],
        "npu_cycles": {
            "median": result.median_cycles,
            "min": min(result.cycles, default=None),
            "max": max(result.cycles, default=None),
            "provenance": result.cycle_provenance,
        },
        "jobs": result.jobs,
        "seconds": {
            "total": round(result.seconds, 4),
            "device": round(result.device_seconds, 4),
            "reference": round(result.reference_seconds, 4),
            "pytorch": round(result.host_seconds, 4),
        },
        "items_per_second": round(tally.items / result.seconds, 3) if result.seconds else None,
        "notes": list(result.notes),
    }


def text(result: Evaluation) -> RenderableType:
    """Return it for people."""
    tally, question = result.tally, result.order.question
    word, colour = ("verified", "green") if result.verified else ("failed", "red")
    where = f"{result.target.name} {result.target.soc}"
    head = Text.assemble(
        (word, f"bold {colour}"), f"  {question.label} for {question.npu} on {where}, {_data_name(result)}"
    )
    facts = Table.grid(padding=(0, 2))
    if result.stopped is None and result.failure is not None:
        add_row(facts, "failure", f"{result.failure.kind}: {one_line(result.failure.message)}")
    for note in result.notes:
        add_row(facts, "note", note)
    add_row(facts, "items", f"{tally.items:,}")
    add_row(facts, "equal to the reference", f"{tally.equal:,} of {tally.items:,} (tosa_reference_model, every bit)")
    if result.seconds and tally.items:
        add_row(facts, "items per second", _speed(result))
    if result.median_cycles is not None:
        add_row(facts, "npu cycles", f"{result.median_cycles:,} (median, {result.cycle_provenance})")
    parts: list[RenderableType] = [head, facts, "", _scores(result)]
    if result.layers:
        parts += ["", _layers(result)]
    return Group(*parts)


def _scores(result: Evaluation) -> Table:
    tally = result.tally
    classes = ("same class as float",) if tally.metric.classifies else ()
    integers = ("integers as in float",) if tally.integers else ()
    table = table_of(tally.metric.name, *right("score", *classes, "SQNR against float", *integers, no_wrap=False))
    for source, name in zip(SOURCES, ("float, PyTorch", "quantised, PyTorch", "device"), strict=True):
        mean = tally.mean(source)
        if mean is None:
            continue
        cells = [name, f"{mean:.2%}" if tally.metric.classifies else f"{mean:.6g}"]
        if tally.metric.classifies:
            share = None if source == FLOAT else tally.agreement(FLOAT, source)
            cells.append("" if share is None else f"{share:.2%}")
        sqnr = tally.sqnr(source)
        cells.append("" if sqnr is None else f"{sqnr:.1f} dB")
        if integers:
            alike = "" if source == FLOAT else f"{tally.equal_integers[source]:,} of {tally.integers:,}"
            cells.append(alike)
        table.add_row(*cells)
    return table


def _layers(result: Evaluation) -> Table:
    errors = right("SQNR alone", "with all before", no_wrap=False)
    table = table_of("quantisation error by layer", "module", "source", *errors)
    for layer in result.layers[:_WORST_LAYERS]:
        module = layer.module or "(the model)"
        table.add_row(layer.aten, module, layer.source, f"{layer.alone_db:.1f} dB", f"{layer.so_far_db:.1f} dB")
    if len(result.layers) > _WORST_LAYERS:
        table.add_row(f"and {len(result.layers) - _WORST_LAYERS} better ones (--json has all)")
    return table


def _speed(result: Evaluation) -> str:
    items = result.tally.items
    boards = f"{result.jobs} board{'s' if result.jobs > 1 else ''}"
    parts = [f"{items / result.seconds:,.1f} with {boards} and all comparisons"]
    for name, seconds in (("a board alone", result.device_seconds), ("the reference alone", result.reference_seconds)):
        if seconds:
            parts.append(f"{name} {items / seconds:,.1f}")
    return "; ".join(parts)


def _data_name(result: Evaluation) -> str:
    data = result.order.data
    return data if isinstance(data, str) else data.name
