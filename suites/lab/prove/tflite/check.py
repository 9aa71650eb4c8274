"""Compiles a TensorFlow Lite network and says whether the NPU's outputs are those of TensorFlow Lite Micro."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ethos_hil.base.errors import CompileError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Fault
from ethos_hil.harness.verdict.run_delegate import NetworkRunner
from ethos_hil.lowering.formats.npu_network import NpuNetwork, VelaTflite, read_tflite
from ethos_hil.lowering.testing.compile_tflite import Generator, compile_tflite
from ethos_hil.lowering.testing.tflite_graph import Array
from ethos_hil.suites.lab.prove.conformance.check import CheckEnding, CheckResult, differences, fault_name
from ethos_hil.suites.lab.prove.conformance.coverage import kinds_of
from ethos_hil.suites.lab.prove.tflite.oracle import Sets, TflmAnswer

Place = tuple[str, Generator]  # configuration, and which of Vela's generators


@dataclass(frozen=True)
class TfliteJob:
    """The checks of one network.

    Attributes:
        name: the network's.
        tflite: its flatbuffer.
        inputs, outputs: names of its tensors, in its order.
        sets: the inputs of each inference.
        answer: what is right.
        places: where it is checked.
    """

    name: str
    tflite: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    sets: Sets
    answer: TflmAnswer
    places: Sequence[Place]

    @property
    def count(self) -> int:
        """One check for each place."""
        return len(self.places)

    def prepare(self) -> Callable[[int], CheckResult]:
        """Return the function that does a check."""
        return lambda number: self.check(*self.places[number])

    def lost(self, item: int, reason: str) -> CheckResult:
        """Return the result of a check that did not end."""
        return self._ended(*self.places[item], CheckEnding.BROKEN, reason)

    def check(self, npu: str, generator: Generator) -> CheckResult:
        """Compile, run and compare."""
        if self.answer.problem:
            return self._ended(npu, generator, CheckEnding.NOT_COMPARABLE, self.answer.problem)
        try:
            data = compile_tflite(self.tflite, EthosU.parse(npu), generator=generator, raw=False)
        except CompileError as error:
            return self._ended(npu, generator, CheckEnding.NOT_COMPILED, error.message)
        model = read_tflite(data, self.name)
        if model.others or len(model.networks) != 1:
            return self._ended(npu, generator, CheckEnding.NOT_COMPILED, _left(model))
        try:
            return self._compared(npu, generator, model.networks[0])
        except Fault as fault:
            return self._ended(npu, generator, CheckEnding.FAULTED, fault_name(fault))

    def run(self, network: NpuNetwork) -> tuple[list[list[Array]], NetworkRunner]:
        """Return the outputs of every inference, in the network's order, and the runner. Raises Fault."""
        runner = NetworkRunner(network)
        outputs = []
        for inputs in self.sets:
            values, _ = runner.run(ordered(inputs, self.inputs, [tensor.name for tensor in network.inputs]))
            outputs.append(ordered(values, [tensor.name for tensor in network.outputs], self.outputs))
        return outputs, runner

    def _compared(self, npu: str, generator: Generator, network: NpuNetwork) -> CheckResult:
        outputs, runner = self.run(network)
        for number, (answer, wanted) in enumerate(zip(outputs, self.answer.outputs, strict=True)):
            problem = next(differences([array.tobytes() for array in answer], wanted), None)
            if problem:
                return self._ended(npu, generator, CheckEnding.MISMATCH, f"inference {number}: {problem}")
        hazards = runner.program.hazards if generator is Generator.REGOR else ()
        if hazards:
            return self._ended(npu, generator, CheckEnding.BROKEN, str(hazards[0]))
        kinds = kinds_of(runner.program)
        return CheckResult(self.name, npu, generator, CheckEnding.EXACT, "", kinds, len(outputs))

    def _ended(self, npu: str, generator: Generator, ending: CheckEnding, detail: str) -> CheckResult:
        return CheckResult(self.name, npu, generator, ending, detail)


def ordered(values: Sequence[Array], names: Sequence[str], wanted: Sequence[str]) -> list[Array]:
    """Return values in the order of other names; in their own where names were lost and there is as many."""
    by_name = dict(zip(names, values, strict=True))
    if all(name in by_name for name in wanted):
        return [by_name[name] for name in wanted]
    if len(wanted) != len(values):
        raise ValueError(f"{', '.join(wanted)} are not among {', '.join(names)}")
    return list(values)


def drawn(shape: Sequence[int], dtype: str, zero: int, rng: np.random.Generator, number: int) -> Array:
    """Return an input of inference `number`: random values, then the two ends, then values around zero."""
    if np.dtype(dtype).kind == "f":
        return rng.normal(0, 1, shape).astype(dtype)
    ends = np.iinfo(dtype)
    if number == 1:
        return np.where(rng.random(shape) < 0.5, ends.min, ends.max).astype(dtype)
    if number == 2:
        near = rng.normal(zero, (ends.max - ends.min) / 16, shape).round()
        return near.clip(ends.min, ends.max).astype(dtype)
    return rng.integers(ends.min, ends.max, shape, endpoint=True).astype(dtype)


def _left(model: VelaTflite) -> str:
    return f"{model.others} operators are left to the CPU, {len(model.networks)} parts are for the NPU"
