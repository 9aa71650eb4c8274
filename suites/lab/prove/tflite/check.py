"""Compiles a TensorFlow Lite network and says whether the NPU's outputs are those of TensorFlow Lite Micro."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.errors import CompileError, ToolError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Fault
from ethos_hil.harness.verdict.run_delegate import NetworkRunner
from ethos_hil.lowering.formats.npu_network import NpuNetwork, VelaTflite, read_tflite
from ethos_hil.lowering.testing.tflite_graph import Array, Generator, compile_tflite
from ethos_hil.suites.lab.prove.conformance.check import CheckEnding, CheckResult, differences, fault_name
from ethos_hil.suites.lab.prove.tflite.networks import NETWORKS
from ethos_hil.suites.lab.shared import ROOT

PYTHON = ROOT / "build" / "tflite-micro" / "bin" / "python"
_SCRIPT = Path(__file__).with_name("tflm.py")
_LAST = 200  # characters of an error


@dataclass(frozen=True)
class TflmAnswer:
    """What TensorFlow Lite Micro says of a network.

    Attributes:
        outputs: of each inference; none where it cannot run the network.
        problem: why it cannot, or "".
    """

    outputs: tuple[tuple[Array, ...], ...] = ()
    problem: str = ""


def available() -> bool:
    """Return whether the environment is set up."""
    return (PYTHON.parents[1] / ".installed").exists()


def answers(names: Sequence[str]) -> dict[str, TflmAnswer]:
    """Run networks.

    Args:
        names: of networks in the catalogue. States go from one inference to the next.

    Raises:
        ToolError: the environment is missing or broken.
    """
    if not available():
        raise ToolError("TensorFlow Lite Micro is not installed", hint="run: make build/tflite-micro/.installed")
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as place:
        folder = Path(place)
        for number, network in enumerate(map(NETWORKS.__getitem__, names)):
            (folder / f"{number}.tflite").write_bytes(network.judged)
            sets = network.input_sets()
            arrays = {f"{i}_{j}": value for i, inputs in enumerate(sets) for j, value in enumerate(inputs)}
            np.savez(folder / f"{number}.in.npz", **arrays)
        done = subprocess.run([PYTHON, "-I", _SCRIPT, folder], capture_output=True, text=True)
        if done.returncode:
            output = " ".join(done.stderr.split())[-_LAST:]
            raise ToolError(f"TensorFlow Lite Micro ended with status {done.returncode}: {output}")
        return {name: _answer(folder / str(number)) for number, name in enumerate(names)}


def _answer(path: Path) -> TflmAnswer:
    file = path.with_suffix(".out.npz")
    if not file.exists():
        lines = path.with_suffix(".txt").read_text(errors="replace").splitlines()
        return TflmAnswer(problem=next((line for line in lines if line.strip()), "no reason")[:_LAST])
    with np.load(file) as archive:
        by_inference: dict[int, dict[int, Array]] = {}
        for name in archive.files:
            inference, index = map(int, name.split("_"))
            by_inference.setdefault(inference, {})[index] = archive[name]
    return TflmAnswer(
        tuple(tuple(outputs[index] for index in sorted(outputs)) for _, outputs in sorted(by_inference.items()))
    )


Place = tuple[str, Generator]  # configuration, and which of Vela's generators


@dataclass(frozen=True)
class TfliteJob:
    """The checks of one network.

    Attributes:
        name: the network's.
        answer: what is right.
        places: where it is checked.
    """

    name: str
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
            data = compile_tflite(NETWORKS[self.name].tflite, EthosU.parse(npu), generator=generator)
        except CompileError as error:
            return self._ended(npu, generator, CheckEnding.NOT_COMPILED, error.message)
        model = read_tflite(data, self.name)
        if model.others or len(model.networks) != 1:
            return self._ended(npu, generator, CheckEnding.NOT_COMPILED, _left(model))
        try:
            return self._compared(npu, generator, model.networks[0])
        except Fault as fault:
            return self._ended(npu, generator, CheckEnding.FAULTED, fault_name(fault))

    def _compared(self, npu: str, generator: Generator, network: NpuNetwork) -> CheckResult:
        outputs, runner = run(self.name, network)
        for number, (answer, wanted) in enumerate(zip(outputs, self.answer.outputs, strict=True)):
            problem = next(differences([array.tobytes() for array in answer], wanted), None)
            if problem:
                return self._ended(npu, generator, CheckEnding.MISMATCH, f"inference {number}: {problem}")
        hazards = runner.program.hazards if generator is Generator.REGOR else ()
        if hazards:
            return self._ended(npu, generator, CheckEnding.BROKEN, str(hazards[0]))
        return replace(self._ended(npu, generator, CheckEnding.EXACT, ""), sets=len(outputs))

    def _ended(self, npu: str, generator: Generator, ending: CheckEnding, detail: str) -> CheckResult:
        return CheckResult(self.name, npu, generator, ending, detail)


def run(name: str, network: NpuNetwork) -> tuple[list[list[Array]], NetworkRunner]:
    """Run every inference of a network of the catalogue.

    Args:
        name: its name.
        network: what it was compiled to.

    Returns:
        The outputs of each inference, in the order of the catalogue's, and the runner.

    Raises:
        Fault: the NPU refuses it.
    """
    own = NETWORKS[name]
    ins, outs = ([f"tensor{tensor.index}" for tensor in ends] for ends in (own.graph.inputs, own.graph.outputs))
    runner = NetworkRunner(network)
    outputs = []
    for inputs in own.input_sets():
        values, _ = runner.run(ordered(inputs, ins, [tensor.name for tensor in network.inputs]))
        outputs.append(ordered(values, [tensor.name for tensor in network.outputs], outs))
    return outputs, runner


def ordered(values: Sequence[Array], names: Sequence[str], wanted: Sequence[str]) -> list[Array]:
    """Return values in the order of other names; in their own where names were lost and there is as many."""
    by_name = dict(zip(names, values, strict=True))
    if all(name in by_name for name in wanted):
        return [by_name[name] for name in wanted]
    if len(wanted) != len(values):
        raise ValueError(f"{', '.join(wanted)} are not among {', '.join(names)}")
    return list(values)


def _left(model: VelaTflite) -> str:
    return f"{model.others} operators are left to the CPU, {len(model.networks)} parts are for the NPU"
