"""What a model keeps between its calls, and whether the program keeps it."""

from __future__ import annotations

import numpy as np

from ethos_hil.base.verdict import Failure, FailureKind
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.verdict.against_pytorch import PyTorchFinding
from ethos_hil.harness.verdict.model_calls import ModelCalls
from ethos_hil.lowering.artifact import Artifact

_HINT = "give the state to forward as an input, and return its next value as an output"


def state_of(artifact: Artifact, executions: int, calls: ModelCalls | None) -> PyTorchFinding:
    """Return what the program does not keep.

    State that upstream lost is always a failure. State of Python, which torch.export takes for constant, is a note: the
    first call is right. It is a failure if later calls of the model answer otherwise, and the program was called again.

    Args:
        artifact: the program.
        executions: how often it was called.
        calls: the model's answers, if they were computed.
    """
    if artifact.lost:
        return _failed(f"the program does not keep the model's state: {'; '.join(artifact.lost)}")
    kept = ", ".join(artifact.frozen)
    if kept and executions > 1:
        return _failed(f"the model changes {kept} when it is called; the program keeps the values of the first call")
    if calls is not None and calls.unlike_first is not None and not artifact.keeps_state:
        return _failed(
            f"call {calls.unlike_first + 1} of the model in PyTorch depends on earlier calls; the program's does not"
        )
    if kept:
        return PyTorchFinding(
            notes=(f"the model changes {kept} when it is called; the program answers like its first call",)
        )
    return PyTorchFinding()


def steps_of(
    artifact: Artifact, inputs: list[tuple[np.ndarray, ...]], calls: ModelCalls, outcome: Outcome
) -> PyTorchFinding:
    """Compare each execution of a float program that keeps state with the model's own call.

    Args:
        artifact: the program, of a method on the CPU; of others nothing is found.
        inputs: the inputs of each execution, in order.
        calls: the model's answer to each execution.
        outcome: the target's.
    """
    if not artifact.keeps_state or artifact.quantised:
        return PyTorchFinding()
    # Late imports: few programs keep state.
    from ethos_hil.lowering.oracle.bounds.program import bound_in_turn
    from ethos_hil.lowering.oracle.bounds.value import NoBound, RoundingPolicy

    try:
        bounds = bound_in_turn(artifact, inputs, RoundingPolicy())
    except NoBound:
        return PyTorchFinding()
    for number, (run, outputs) in enumerate(zip(outcome.runs, bounds, strict=True)):
        for index, (wanted, found, bound) in enumerate(
            zip(calls.of(run.input_set, run.repeat), run.outputs, outputs, strict=True)
        ):
            with np.errstate(invalid="ignore"):
                error = np.abs(wanted.astype(np.float64) - found.astype(np.float64))
            beyond = np.argwhere(error > bound.error)
            if len(beyond):
                first = tuple(map(int, beyond[0]))
                return _failed(
                    f"call {number + 1}, {artifact.outputs[index]} at {list(first)}: PyTorch answers "
                    f"{wanted[first]:.9g}, the program {found[first]:.9g}; roundings explain at most "
                    f"{bound.error[first]:.3g}"
                )
    return PyTorchFinding()


def _failed(message: str) -> PyTorchFinding:
    return PyTorchFinding(Failure(FailureKind.STATE, message, _HINT))
