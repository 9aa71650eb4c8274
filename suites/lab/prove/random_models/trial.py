"""Random networks on NPUs: lowered, their delegates compared with tosa_reference_model, and run on a board."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import EthosHilError, TargetError, UndefinedAnswer, UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.base.verdict import FailureKind, Verdict
from ethos_hil.harness.ask.lower_question import lower_question
from ethos_hil.harness.image.preflight import PreflightFailed
from ethos_hil.harness.npu import Fault, Npu
from ethos_hil.harness.run import run_artifact
from ethos_hil.harness.targets.registry import make_target
from ethos_hil.harness.verdict.run_delegate import run_delegate
from ethos_hil.lowering.artifact import Artifact, Delegate
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.formats.tosa import TosaGraph, TosaTensor
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.oracle.reference import evaluate, product_overflow
from ethos_hil.suites.lab.prove.conformance.check import differences
from ethos_hil.suites.lab.prove.random_models.scheme import DrawnScheme

if TYPE_CHECKING:
    from ethos_hil.harness.virtual.board import BoardPool
    from ethos_hil.suites.lab.prove.random_models.networks import Drawn


_LINE = re.compile(r"[\w/]+\.py:\d+")


class NetworkEnding(StrEnum):
    """How a trial ends."""

    VERIFIED = "verified"
    """Delegates are equal to the reference on random and extreme inputs, the program on its example inputs."""
    CPU_ONLY = "verified, nothing on the NPU"
    REFUSED = "refused"
    """Before boot, with a line of the model and advice."""
    UNCLEAR = "unclear"
    """Refused, but without a line or without advice."""
    UNDEFINED = "verified, other inputs undefined"
    """As verified, but TOSA defines no answer to the drawn inputs of a delegate that the detail names, or integers that
    wrap around, which the NPU saturates."""
    FAILED = "failed"
    """Any other end; the detail begins with its kind."""

    @property
    def failed(self) -> bool:
        """Whether it is a failure."""
        return self in (NetworkEnding.UNCLEAR, NetworkEnding.FAILED)


@dataclass(frozen=True)
class NetworkTrial:
    """The end of a trial.

    Attributes:
        seed: the network's.
        npu: the NPU.
        ending: how it ended.
        detail: why, in words.
        recipe: the network's layers.
        defects: the ids of the defects that were repaired.
    """

    seed: int
    npu: str
    ending: NetworkEnding
    detail: str = ""
    recipe: str = ""
    defects: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"seed {self.seed} on {self.npu}: {self.ending}{self.detail and ': '}{self.detail}"

    @property
    def reason(self) -> str:
        """The detail without what differs from network to network: to count reasons."""
        return re.sub(r"-?\d+(\.\d+)?", "#", _LINE.sub("LINE", self.detail)).split(" [")[0]


def trial(drawn: Drawn, npu: str, cache: Path, *, pool: BoardPool | None = None) -> NetworkTrial:
    """Lower a network for an NPU, compare its delegates with the reference, and run it on the virtual board.

    Args:
        drawn: the network.
        npu: the NPU.
        cache: a folder for the artifact.
        pool: keeps boards between trials.
    """
    question = Question(
        model=from_module(drawn.module, drawn.inputs, label=f"seed {drawn.seed}"),
        npu=npu,
        scheme=drawn.scheme,
        int16=drawn.int16,
        repeat=drawn.executions,
        allow_cpu_only=True,
    )
    try:
        artifact = lower_question(question, cache=Cache(cache), etrecord=False).artifact
    except UsageError as error:
        return refused(drawn, npu, error)
    except EthosHilError as error:
        return _ended(drawn, npu, NetworkEnding.FAILED, f"{type(error).__name__}: {error}")
    defects = tuple(dict.fromkeys(defect for delegate in artifact.delegates for defect in delegate.defects))
    undefined: list[str] = []
    for delegate in artifact.delegates:
        try:
            problem = next(problems_of(delegate, npu, drawn.seed, undefined), None)
        except Fault as fault:
            return _ended(drawn, npu, NetworkEnding.FAILED, f"{FailureKind.FAULT}: {fault}", defects)
        if problem is not None:
            return _ended(drawn, npu, NetworkEnding.FAILED, f"{FailureKind.MISMATCH}: {problem}", defects)
    try:
        ending, detail = _on_a_board(artifact, question, pool)
    except (PreflightFailed, UndefinedAnswer) as error:
        return refused(drawn, npu, error)
    except (UsageError, TargetError, EthosHilError) as error:
        return _ended(drawn, npu, NetworkEnding.FAILED, f"{error.kind}: {error}", defects)
    if undefined and not ending.failed:
        ending, detail = NetworkEnding.UNDEFINED, "; ".join(undefined)
    return _ended(drawn, npu, ending, detail, defects)


def _on_a_board(artifact: Artifact, question: Question, pool: BoardPool | None) -> tuple[NetworkEnding, str]:
    record = run_artifact(artifact, make_target("virtual", question.npu_name, pool=pool), question).record
    if record.verdict is Verdict.VERIFIED:
        return (NetworkEnding.VERIFIED if artifact.delegates else NetworkEnding.CPU_ONLY), ""
    assert record.failure is not None
    return NetworkEnding.FAILED, f"{record.failure.kind}: {record.failure.message}"


def refused(drawn: Drawn, npu: str, error: EthosHilError) -> NetworkTrial:
    """Return the end of a refusal. It is a good one only where a user can act on it."""
    advised = error.hint is not None and "--debug" not in error.hint
    clear = advised and _LINE.search(str(error)) is not None
    ending = NetworkEnding.REFUSED if clear else NetworkEnding.UNCLEAR
    return _ended(drawn, npu, ending, f"{error} [{error.hint}]")


def _ended(drawn: Drawn, npu: str, ending: NetworkEnding, detail: str, defects: tuple[str, ...] = ()) -> NetworkTrial:
    return NetworkTrial(drawn.seed, npu, ending, detail, drawn.recipe, defects)


def problems_of(delegate: Delegate, npu: str, seed: int, undefined: list[str] | None = None) -> Iterator[str]:
    """Yield each difference between a delegate and the reference, on random and extreme inputs.

    Args:
        delegate: the delegate.
        npu: the NPU.
        seed: of the inputs.
        undefined: gets a line for inputs to which TOSA defines no answer, or another one than what the NPU saturates.

    Raises:
        Fault: the NPU cannot run it.
        UndefinedAnswer: TOSA defines no answer, and there is no list to say so.
    """
    assert delegate.tosa is not None
    graph = TosaGraph.parse(delegate.tosa)
    for kind in ("random", "extreme"):
        rng = np.random.default_rng((seed, delegate.index))
        inputs = [_drawn_input(tensor, kind, rng) for tensor in graph.inputs]
        try:
            expected = evaluate(delegate.tosa, inputs, f"delegate {delegate.index} with {kind} inputs")
        except UndefinedAnswer as error:
            if undefined is None:
                raise
            undefined.append(str(error))
            continue
        result = run_delegate(Npu(EthosU.parse(npu)), delegate.blob, [array.tobytes() for array in inputs])
        lines = [f"{kind} inputs: {line}" for line in differences(list(result.outputs), list(expected))]
        overflow = product_overflow(delegate, inputs) if lines else None
        if overflow is not None and undefined is not None:
            undefined.append(f"{kind} inputs: {overflow.text}")
            continue
        yield from lines


def _drawn_input(tensor: TosaTensor, kind: str, rng: np.random.Generator) -> np.ndarray:
    if tensor.dtype == "BOOL":
        return rng.random(tensor.shape) < 0.5
    dtype = np.dtype(tensor.dtype.lower())
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if tensor.dtype == "INT32":  # an index or a count; extremes of its type are not valid input
        low, high = 0, 3
    if kind == "random":
        return rng.integers(low, high, tensor.shape, endpoint=True).astype(dtype)
    return np.where(rng.random(tensor.shape) < 0.5, low, high).astype(dtype)


LIMIT_SECONDS = 300.0
"""For one network on one NPU. Most take under ten seconds."""


@dataclass(frozen=True)
class NetworkJob:
    """A network, on some NPUs.

    Attributes:
        seed: the network's.
        npus: the NPUs.
        scheme: how to quantise; None if that is drawn.
    """

    seed: int
    npus: Sequence[str]
    scheme: DrawnScheme | None = None

    @property
    def count(self) -> int:
        """One trial for each NPU."""
        return len(self.npus)

    def prepare(self) -> Callable[[int], NetworkTrial]:
        """Draw the network."""
        from ethos_hil.suites.lab.prove.random_models.networks import network

        def tried(item: int) -> NetworkTrial:
            with tempfile.TemporaryDirectory(prefix="ethos-hil-") as folder:
                return trial(network(self.seed, self.scheme), self.npus[item], Path(folder), pool=_pool())

        return tried

    def lost(self, item: int, reason: str) -> NetworkTrial:
        """Return the end of a trial that crashed, hung or raised."""
        return NetworkTrial(self.seed, self.npus[item], NetworkEnding.FAILED, reason)


@cache
def _pool() -> BoardPool:
    """Return the boards of this worker. They end with it."""
    from ethos_hil.harness.virtual.board import BoardPool

    return BoardPool()
