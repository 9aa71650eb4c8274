"""A process with a board of its own, which runs input sets and compares their answers with the reference."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

import numpy as np

from ethos_hil.base.errors import EthosHilError, TargetError, shortage
from ethos_hil.base.process import dies_with
from ethos_hil.base.question import Question
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.image.inputs import InputSet
from ethos_hil.lowering.artifact import Artifact

if TYPE_CHECKING:
    from ethos_hil.harness.targets.base import Target


@dataclass(frozen=True)
class Chunk:
    """Input sets that are run in one boot, from item `first` on."""

    first: int
    input_sets: tuple[InputSet, ...]

    def __str__(self) -> str:
        last = self.first + len(self.input_sets) - 1
        return f"item {self.first}" if last == self.first else f"items {self.first} to {last}"


class WorkerEnded(TargetError):
    """A worker process ended, and had not answered."""


@dataclass(frozen=True)
class DeviceAnswers:
    """What the device answered to a chunk.

    Attributes:
        first: its first item.
        outputs: the outputs of each input set.
        equal: whether these are tosa_reference_model's, bit for bit.
        cycles: of the NPU, for each input set.
        cycle_provenance: where these are from; "" if they are not known.
        record: of the run.
        device_seconds, reference_seconds: wall time of the board, and of the reference model.
    """

    first: int
    outputs: tuple[tuple[np.ndarray, ...], ...]
    equal: tuple[bool, ...]
    cycles: tuple[int, ...]
    cycle_provenance: str
    record: Record
    device_seconds: float
    reference_seconds: float


class BoardWorker:
    """A worker process. It ends when this process ends, however that happens."""

    def __init__(self, artifact: Artifact, question: Question) -> None:
        """Start it.

        Args:
            artifact: the program.
            question: the target, and its time limit for one chunk; nothing else of it is used.
        """
        context = multiprocessing.get_context("spawn")  # QEMU ends with the thread that started it, not with a fork
        self.connection, theirs = context.Pipe()
        plain = replace(question, model=question.label, inputs=None)
        self._process = context.Process(target=_serve, args=(theirs, artifact, plain, os.getpid()), daemon=True)
        self._process.start()
        theirs.close()
        self.chunk: Chunk | None = None
        """What it runs now."""

    @property
    def busy(self) -> bool:
        """Whether it has a chunk to run."""
        return self.chunk is not None

    @property
    def pid(self) -> int:
        """The number of the process."""
        assert self._process.pid is not None
        return self._process.pid

    def give(self, chunk: Chunk) -> None:
        """Give it a chunk to run; `connection` can be read when it is done."""
        self.chunk = chunk
        with contextlib.suppress(BrokenPipeError):  # it has ended, which `take` says
            self.connection.send(chunk)

    def take(self) -> DeviceAnswers:
        """Return the answers to the chunk that it has.

        Raises:
            EthosHilError: what the run raised.
            TargetError: the process ended.
        """
        chunk, self.chunk = self.chunk, None
        try:
            answer: DeviceAnswers | EthosHilError = self.connection.recv()
        except (EOFError, ConnectionResetError) as error:
            self._process.join()  # it closed the connection by its end
            raise WorkerEnded(
                f"the worker process of {chunk} ended with {self._process.exitcode}", kind=FailureKind.CRASHED
            ) from error
        if isinstance(answer, EthosHilError):
            raise answer
        return answer

    def stop(self) -> None:
        """End it, whatever it does."""
        self.connection.close()
        self._process.kill()
        self._process.join()  # nothing survives the signal


def _serve(connection: Connection, artifact: Artifact, question: Question, parent: int) -> None:
    """Be a worker until the connection closes."""
    dies_with(parent)()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the parent decides, and kills
        signal.signal(number, signal.SIG_IGN)
    from ethos_hil.harness.ask.place import target_of
    from ethos_hil.harness.virtual.board import BoardPool

    with BoardPool() as pool:
        board = None
        while True:
            try:
                chunk: Chunk = connection.recv()
            except EOFError:
                return
            try:
                if board is None:
                    board = target_of(question, pool=pool)
                answer: DeviceAnswers | EthosHilError = _run(artifact, board, question, chunk)
            except EthosHilError as error:
                answer = error
            except Exception as error:
                lacking = shortage(error)
                if lacking is None:
                    raise
                answer = lacking
            connection.send(answer)


def _run(artifact: Artifact, board: Target, question: Question, chunk: Chunk) -> DeviceAnswers:
    from ethos_hil.harness.run import run_artifact
    from ethos_hil.harness.verdict.verify import same_bits

    began = time.perf_counter()
    report = run_artifact(artifact, board, replace(question, inputs=chunk.input_sets))
    spent = time.perf_counter() - began
    runs = sorted(report.outcome.runs, key=lambda run: run.input_set)
    pairs = list(zip(runs, report.references, strict=True))
    equal = tuple(
        all(same_bits(output, wanted) for output, wanted in zip(run.outputs, reference.outputs, strict=True))
        for run, reference in pairs
    )
    on_device = report.outcome.seconds.get("total", 0.0)
    counted = report.record.metric("npu_cycles")
    return DeviceAnswers(
        chunk.first,
        tuple(tuple(run.outputs) for run in runs),
        equal,
        tuple(run.cycles for run in runs) if counted is not None else (),
        counted.provenance if counted is not None else "",
        report.record,
        on_device,
        spent - on_device,
    )
