"""One random network on one NPU: lowered, and each delegate compared with tosa_reference_model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ethos_hil.harness.npu import Configuration, Fault, Npu
from ethos_hil.harness.verdict.run_delegate import run_delegate
from ethos_hil.lowering.artifact import Delegate
from ethos_hil.lowering.cache import Cache
from ethos_hil.lowering.errors import EthosHilError, UndefinedAnswer, UsageError
from ethos_hil.lowering.formats.tosa import TosaGraph, TosaTensor
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model import from_module
from ethos_hil.lowering.npu_name import NpuName
from ethos_hil.lowering.oracle.reference import evaluate
from ethos_hil.lowering.scheme import Scheme
from ethos_hil.suites.lab.conformance.check import differences

if TYPE_CHECKING:
    from ethos_hil.suites.lab.random_models.networks import Drawn


class NetworkEnding(StrEnum):
    """How a trial ends. The last three are failures."""

    EXACT = "exact"
    NOTHING = "nothing delegated"
    REFUSED = "refused"
    MISMATCH = "mismatch"
    FAULT = "fault"
    BROKEN = "broken"

    @property
    def failed(self) -> bool:
        """Whether it is a failure."""
        return self in (NetworkEnding.MISMATCH, NetworkEnding.FAULT, NetworkEnding.BROKEN)


@dataclass(frozen=True)
class NetworkTrial:
    """The end of a trial.

    Attributes:
        seed: the network's.
        npu: the NPU.
        ending: how it ended.
        detail: why, in words.
        defects: the ids of the defects that were repaired.
    """

    seed: int
    npu: str
    ending: NetworkEnding
    detail: str = ""
    defects: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"seed {self.seed} on {self.npu}: {self.ending}{self.detail and ': '}{self.detail}"


def trial(drawn: Drawn, npu: str, cache: Path, scheme: Scheme = "a8w8") -> NetworkTrial:
    """Lower a network for an NPU and compare its delegates with the reference, on random and extreme inputs."""
    model = from_module(drawn.module, drawn.inputs, label=f"seed {drawn.seed}")
    try:
        artifact = lower(model, NpuName.parse(npu), cache=Cache(cache), scheme=scheme)
    except UsageError as error:
        return NetworkTrial(drawn.seed, npu, NetworkEnding.REFUSED, str(error))
    except EthosHilError as error:
        return NetworkTrial(drawn.seed, npu, NetworkEnding.BROKEN, f"{type(error).__name__}: {error}")
    defects = tuple(dict.fromkeys(defect for each in artifact.delegates for defect in each.defects))
    for delegate in artifact.delegates:
        try:
            problem = next(problems_of(delegate, npu, drawn.seed), None)
        except Fault as fault:
            return NetworkTrial(drawn.seed, npu, NetworkEnding.FAULT, str(fault), defects)
        if problem is not None:
            return NetworkTrial(drawn.seed, npu, NetworkEnding.MISMATCH, problem, defects)
    return NetworkTrial(
        drawn.seed, npu, NetworkEnding.EXACT if artifact.delegates else NetworkEnding.NOTHING, "", defects
    )


def problems_of(delegate: Delegate, npu: str, seed: int) -> Iterator[str]:
    """Yield each difference between a delegate and the reference, on random and extreme inputs. Raises Fault."""
    assert delegate.tosa is not None
    graph = TosaGraph.parse(delegate.tosa)
    for kind in ("random", "extreme"):
        rng = np.random.default_rng((seed, delegate.index))
        inputs = [_drawn_input(tensor, kind, rng) for tensor in graph.inputs]
        try:
            expected = evaluate(delegate.tosa, inputs, "the delegate")
        except UndefinedAnswer:
            continue
        result = run_delegate(Npu(Configuration.parse(npu)), delegate.blob, [array.tobytes() for array in inputs])
        yield from (f"{kind} inputs: {line}" for line in differences(list(result.outputs), list(expected)))


def _drawn_input(tensor: TosaTensor, kind: str, rng: np.random.Generator) -> np.ndarray:
    if tensor.dtype == "BOOL":
        return rng.random(tensor.shape) < 0.5
    dtype = np.dtype(tensor.dtype.lower())
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if tensor.dtype == "INT32":  # an index or a count; extremes of its type are no valid input
        low, high = 0, 3
    if kind == "random":
        return rng.integers(low, high, tensor.shape, endpoint=True).astype(dtype)
    return np.where(rng.random(tensor.shape) < 0.5, low, high).astype(dtype)
