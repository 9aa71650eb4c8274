"""The device's answer against PyTorch's own, where something certain can be said of their difference.

`ethos_hil.harness.verdict.verify` compares with the reference of what was compiled, so it cannot see that something
else was compiled than the model. Here is what can, without a tolerance that someone chose:

- PyTorch's answer is NaN or infinite, and the program's is not, or the other way round.
- An output's type differs from the model's, and so do its values; or an integer does not fit the narrower type.
- The answer to the example inputs is farther from the quantised module's than all roundings together can bring it
  (`Artifact.allowed`). It is known of small programs; after some layers the bound is too large.
- Outputs of equal shape fit PyTorch's in another order, and so well that it cannot be chance (`permutation`).
- The user's own limit of the SQNR against the float model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.record import Accuracy
from ethos_hil.base.verdict import Failure, FailureKind
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.pte_model import KernelCall, fitting
from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.upstream.reasons.rule import is_one_of

NOT_THE_MODEL = (
    "what was compiled is computed right, and is not PyTorch's model: look for what quantising or lowering made of it; "
    "ethos-hil evaluate says which layers lose most"
)
Arrays = Sequence[np.ndarray]
CHANCE = 1e-9
"""An order is called wrong if chance explains it with a probability below this."""
_STEPS_OF_8_BITS = 255
_UNEVEN = (
    "aten.ceil", "aten.floor", "aten.round", "aten.trunc", "aten.frac", "aten.remainder", "aten.fmod", "aten.sin",
    "aten.cos", "aten.tan", "aten.reciprocal", "aten.pow",
)  # fmt: skip
"""Functions that jump, or have poles or waves."""


@dataclass(frozen=True)
class PyTorchFinding:
    """What a comparison with PyTorch found: a failure, or sentences that are worth a note."""

    failure: Failure | None = None
    notes: tuple[str, ...] = ()

    def then(self, other: PyTorchFinding) -> PyTorchFinding:
        """Return both findings; the first failure counts."""
        return PyTorchFinding(self.failure or other.failure, tuple(dict.fromkeys((*self.notes, *other.notes))))


def against_example(artifact: Artifact, outputs: Arrays) -> PyTorchFinding:
    """Compare the program's answer to the artifact's example inputs with PyTorch's.

    Args:
        artifact: with PyTorch's answers; without them nothing is found.
        outputs: the program's answer, in the program's types and logical shapes.
    """
    finding = against_float(artifact.floating or artifact.quantised, outputs, artifact.output_names)
    if finding.failure is not None or not artifact.pytorch or len(artifact.pytorch) != len(outputs):
        return finding
    return finding.then(_find_swap(artifact, outputs)).then(_too_far(artifact, outputs))


def against_float(wanted: Arrays, outputs: Arrays, names: Sequence[str] = ()) -> PyTorchFinding:
    """Compare an answer of the program with the float module's: its form, NaNs, infinities, and integers.

    Args:
        wanted: the module's answer, of any precision; none if it is not known.
        outputs: the program's.
        names: the outputs' names; by default "output 0" and so on.
    """
    if not wanted:
        return PyTorchFinding()
    if len(wanted) != len(outputs):
        return _fail(FailureKind.ACCURACY, f"the model has {len(wanted)} outputs, the program {len(outputs)}")
    finding = PyTorchFinding()
    for name, *pair in zip(fitting(names, len(outputs)), wanted, outputs, strict=True):
        finding = finding.then(_form(name, *pair))
    return finding


def integers_that_do_not_fit(artifact: Artifact, inputs: Arrays) -> PyTorchFinding:
    """Look for an integer of an input that the program narrows to a type which does not hold it.

    ExecuTorch casts inputs of int64 to int32 in front of a delegate. Casts to other types are the model's own.

    Args:
        artifact: its plan says which inputs are narrowed first of all.
        inputs: one input set.
    """
    plan = artifact.plan
    for number, (index, array) in enumerate(zip(plan.inputs, inputs, strict=False)):
        if array.dtype != np.int64:
            continue
        for call in plan.instructions:
            if isinstance(call, KernelCall) and call.operator == _CAST and call.args[0] == index:
                to = plan.tensor(call.args[-1]).dtype
                beyond = _does_not_fit(array, to) if to == np.int32 else None
                if beyond is not None:
                    text = f"input {number} has {array[beyond]} at {list(beyond)}; the program narrows it to {to}"
                    return _fail(FailureKind.OVERFLOW, text, "give values that fit, or a model that takes int32")
    return PyTorchFinding()


def against_limit(
    wanted: Arrays, outputs: Arrays, limit: float, where: str, names: Sequence[str] = ()
) -> PyTorchFinding:
    """Compare each output's SQNR against the float module's answer with the user's limit in dB."""
    for name, expected, output in zip(fitting(names, len(outputs)), wanted, outputs, strict=False):
        if expected.shape == output.shape and expected.size:
            result = accuracy(name, expected, output)
            if result.sqnr_db is not None and result.sqnr_db < limit:
                text = (
                    f"{name}{where}: SQNR {result.sqnr_db:.1f} dB against {result.reference}, at least {limit:g} wanted"
                )
                return _fail(FailureKind.ACCURACY, text, "calibrate with more inputs, or lower --min-sqnr")
    return PyTorchFinding()


_CAST = "dim_order_ops::_to_dim_order_copy.out"


def _form(name: str, wanted: np.ndarray, output: np.ndarray) -> PyTorchFinding:
    if wanted.shape != output.shape:
        text = f"{name} is {list(output.shape)}, in the model {list(wanted.shape)}"
        return _fail(FailureKind.ACCURACY, text)
    if wanted.dtype.kind == "f" and output.dtype.kind == "f":
        return _finite(name, wanted, output)
    if wanted.dtype == output.dtype:
        return PyTorchFinding()
    types = f"{name} is {output.dtype}, {wanted.dtype} in the model"
    if wanted.dtype.kind in "iu" and output.dtype.kind in "iu":
        beyond = _does_not_fit(wanted, output.dtype)
        if beyond is None:
            return PyTorchFinding(notes=(f"{types}; the model's values fit",))
        text = f"{types}; PyTorch answers {wanted[beyond]} at {list(beyond)}, the program {output[beyond]}"
        return _fail(FailureKind.OVERFLOW, text, "scale the values, or compute them in float")
    different = np.argwhere(wanted.astype(np.float64) != output.astype(np.float64))
    if not len(different):
        return PyTorchFinding(notes=(f"{types}; the values are equal",))
    first = tuple(map(int, different[0]))
    text = f"{types}; PyTorch answers {wanted[first]} at {list(first)}, the program {output[first]}"
    return _fail(FailureKind.DTYPE, text)


def _finite(name: str, wanted: np.ndarray, output: np.ndarray) -> PyTorchFinding:
    different = np.argwhere(_kinds(wanted) != _kinds(output))
    if not len(different):
        return PyTorchFinding()
    first = tuple(map(int, different[0]))
    text = (
        f"{name}: PyTorch answers {wanted[first]} at {list(first)}, the program {output[first]} "
        f"({len(different)} of {wanted.size} elements are not the same NaN or infinity in both)"
    )
    return _fail(FailureKind.ACCURACY, text, "integers have no NaN and no infinity: keep the model from computing them")


def _kinds(array: np.ndarray) -> np.ndarray:
    """Return 0 for a finite number, 1 and -1 for infinities, 2 for NaN."""
    return np.where(np.isnan(array), 2, np.where(np.isposinf(array), 1, np.where(np.isneginf(array), -1, 0)))


def _does_not_fit(array: np.ndarray, dtype: np.dtype[Any]) -> tuple[int, ...] | None:
    limits = np.iinfo(dtype)
    beyond = np.argwhere((array < limits.min) | (array > limits.max))
    return tuple(map(int, beyond[0])) if len(beyond) else None


def _find_swap(artifact: Artifact, outputs: Arrays) -> PyTorchFinding:
    if len(artifact.plan.outputs) < 2:
        return PyTorchFinding()
    from ethos_hil.lowering.oracle.bounds.tolerance import step_of

    steps = [step_of(artifact.plan, index) for index in artifact.plan.outputs]
    order = permutation(artifact.pytorch, outputs, steps)
    if order is None:
        return PyTorchFinding()
    names = fitting(artifact.output_names, len(outputs))
    pairs = ", ".join(f"{names[at]} is PyTorch's {names[other]}" for at, other in enumerate(order) if at != other)
    return _fail(FailureKind.ACCURACY, f"outputs are in another order than in the model: {pairs}")


def _too_far(artifact: Artifact, outputs: Arrays) -> PyTorchFinding:
    """Compare with the worst case of all roundings. A finding is confirmed by computing the program once more."""
    if len(artifact.allowed) != len(outputs):
        return PyTorchFinding()
    for index, far in enumerate(_far(artifact, outputs)):
        if far is None:
            continue
        name = fitting(artifact.output_names, len(outputs))[index]
        if not _is_confirmed(artifact, outputs):
            text = f"{name} is far from PyTorch's, and its bound does not hold for the program either"
            return PyTorchFinding(notes=(f"{text}: a rule in lowering/oracle/bounds may be wrong",))
        wanted, output, allowed = (array[index] for array in (artifact.pytorch, outputs, artifact.allowed))
        sqnr = accuracy("", wanted, output).sqnr_db
        text = (
            f"{name} at {list(far)}: PyTorch's {'quantised' if artifact.quantised else 'float'} module answers "
            f"{wanted[far]:.9g}, the program {output[far]:.9g}; roundings explain at most {allowed[far]:.3g} "
            f"(SQNR {'undefined' if sqnr is None else f'{sqnr:.1f} dB'})"
        )
        return _fail(FailureKind.ACCURACY, text, _of_tables(artifact) or NOT_THE_MODEL)
    return PyTorchFinding()


def _of_tables(artifact: Artifact) -> str:
    """What helps where a function turns or jumps between the points of a table of 16 bits; "" where there is none."""
    names = [name for name in artifact.delegated if is_one_of(name, _UNEVEN)]
    if not names or not any(_has_large_table(delegate.tosa) for delegate in artifact.delegates):
        return ""
    return (
        f"with 16 bits the NPU has 512 points of {', '.join(names)} and joins them with straight lines, "
        "so it misses jumps, poles and waves between them: quantise it to 8 bits (--scheme a8w8, or leave its module "
        "out of --int16), or narrow the range of its input"
    )


def _has_large_table(tosa: bytes | None) -> bool:
    if tosa is None:
        return False
    graph = TosaGraph.parse(tosa)
    return any(op.op == "TABLE" and graph.tensors[op.inputs[1]].shape == (513,) for op in graph.operators)


def _far(artifact: Artifact, outputs: Arrays) -> Iterator[tuple[int, ...] | None]:
    """Yield for each output the first element that is too far away, or None."""
    for wanted, output, allowed in zip(artifact.pytorch, outputs, artifact.allowed, strict=True):
        a, b = wanted.astype(np.float64), output.astype(np.float64)
        with np.errstate(invalid="ignore"):
            error = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        beyond = np.argwhere(~(error <= allowed) & np.isfinite(allowed))
        yield tuple(map(int, beyond[0])) if len(beyond) else None


def _is_confirmed(artifact: Artifact, outputs: Arrays) -> bool:
    """Return whether the rules of the bounds compute the program's own answer."""
    from ethos_hil.lowering.oracle.bounds.program import bound_outputs
    from ethos_hil.lowering.oracle.bounds.value import RoundingPolicy

    for bound, output in zip(bound_outputs(artifact, artifact.example_inputs, RoundingPolicy(1)), outputs, strict=True):
        around = 0.0 if artifact.quantised else bound.error
        with np.errstate(invalid="ignore"):
            error = np.abs(bound.value.astype(np.float64) - output.astype(np.float64))
        if not (np.isnan(error) | (error <= around)).all():
            return False
    return True


def _fail(kind: FailureKind, message: str, hint: str = NOT_THE_MODEL) -> PyTorchFinding:
    return PyTorchFinding(Failure(kind, message, hint))


def accuracies(artifact: Artifact, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> tuple[Accuracy, ...]:
    """Return one accuracy for each output, where the artifact has the float model's answer.

    Args:
        artifact: has the float model's answers for its example inputs only.
        inputs: the inputs of the run.
        outputs: its outputs; none if there is nothing to compare.
    """
    known = len(artifact.floating) == len(outputs)
    examples = artifact.example_inputs
    if not known or len(inputs) != len(examples) or not all(map(np.array_equal, inputs, examples)):
        return ()
    named = zip(fitting(artifact.output_names, len(outputs)), artifact.floating, outputs, strict=True)
    return tuple(
        accuracy(name, wanted, output) for name, wanted, output in named if wanted.shape == output.shape and wanted.size
    )


def reference_name(array: np.ndarray) -> str:
    """Return the name of PyTorch's float answer."""
    return f"PyTorch, {array.dtype}"


def accuracy(name: str, expected: np.ndarray, output: np.ndarray) -> Accuracy:
    """Return the distance of an output from the expected one, of the same shape and not empty."""
    wanted, answer = expected.astype(np.float64), output.astype(np.float64)
    same = (wanted == answer) | (np.isnan(wanted) & np.isnan(answer))
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(wanted - answer))
    error = np.where(np.isnan(error), np.inf, error)
    worst = np.unravel_index(int(np.argmax(error)), error.shape)
    numbers = expected.dtype.kind == "f" or output.dtype.kind == "f"
    return Accuracy(
        name,
        reference_name(expected),
        _sqnr(wanted, error) if numbers else None,
        _cosine(wanted, answer) if numbers else None,
        float(error[worst]),
        tuple(int(axis) for axis in worst),
        float(wanted[worst]),
        float(answer[worst]),
        None if numbers else int(np.count_nonzero(same)),
        output.size,
    )


def _sqnr(wanted: np.ndarray, error: np.ndarray) -> float | None:
    signal, noise = float(np.sum(wanted[np.isfinite(wanted)] ** 2)), float(np.sum(error**2))
    if noise == 0:
        return np.inf if signal else None
    return 10 * float(np.log10(signal / noise)) if signal and np.isfinite(noise) else -np.inf


def _cosine(wanted: np.ndarray, answer: np.ndarray) -> float | None:
    finite = np.isfinite(wanted) & np.isfinite(answer)
    a, b = wanted[finite], answer[finite]
    length = float(np.sqrt(np.sum(a**2) * np.sum(b**2)))
    return float(np.sum(a * b)) / length if length else None


def permutation(
    wanted: Sequence[np.ndarray], outputs: Sequence[np.ndarray], steps: Sequence[float]
) -> tuple[int, ...] | None:
    """Return the order in which the program's outputs are PyTorch's, or None if it is the model's or uncertain.

    Two outputs of equal shape and type may be swapped while a model is lowered. The program then computes exactly what
    it says, and PyTorch's answers are there, in another order. After many layers the distance from PyTorch has no
    useful bound, so the order is judged by chance.

    Let d be PyTorch's answers in the other order minus those in the model's order, and e what the program's answers
    differ from the latter. If the program is right, e is made of roundings, which know nothing of d. The other order
    fits better where e lies close to d: the distance of e from d, relative to the length of e, is the square root of

        r = (energy of the difference in the other order) / (energy of the difference in the model's order).

    A vector of n independent components whose direction is random lies so close to a given direction with a probability
    of at most r**((n - 1) / 2), the part of a sphere's surface in a cap of that width. As n only the number of
    different values of d, in steps, is counted, since equal components may have an error in common. One step for each
    element is added to the energy above the line: answers are multiples of a step, and may agree by rounding.

    Args:
        wanted: PyTorch's answer.
        outputs: the program's, of as many outputs.
        steps: of each output, the difference between neighbouring values; 0 where it is not known.

    Returns:
        For each of the program's outputs the index of PyTorch's.
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for index, (expected, output) in enumerate(zip(wanted, outputs, strict=True)):
        if expected.shape == output.shape and expected.size > 1 and output.dtype.kind in "fi":
            groups.setdefault((expected.shape, output.dtype.str), []).append(index)
    order = list(range(len(outputs)))
    for members in groups.values():
        for at, nearest in zip(members, _nearest(members, wanted, outputs), strict=True):
            order[at] = nearest
    moved = [at for at, other in enumerate(order) if at != other]
    if not moved or sorted(order) != list(range(len(order))):
        return None
    return tuple(order) if _by_chance(wanted, outputs, steps, order, moved) < CHANCE else None


def _nearest(members: Sequence[int], wanted: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> list[int]:
    """Return for each member of a group the output of PyTorch's that is nearest; its own if several are."""
    nearest = []
    for at in members:
        energies = {other: _energy(wanted[other], outputs[at]) for other in members}
        best = min(energies.values())
        nearest.append(at if energies[at] == best else min(energies, key=lambda other: energies[other]))
    return nearest


def _by_chance(
    wanted: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    steps: Sequence[float],
    order: Sequence[int],
    moved: Sequence[int],
) -> float:
    """Return the largest probability that the other order fits so well by chance."""
    above = below = 0.0
    different = 0
    for at in moved:
        own, other = _numbers(wanted[at]), _numbers(wanted[order[at]])
        step = steps[at] or float(np.ptp(own)) / _STEPS_OF_8_BITS or 1.0
        above += _energy(wanted[order[at]], outputs[at]) + own.size * step**2
        below += _energy(wanted[at], outputs[at])
        different = max(different, len(np.unique(np.rint((other - own) / step))))
    if not math.isfinite(above) or not below or above >= below:
        return 1.0
    return float((above / below) ** ((different - 1) / 2))


def _energy(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sum((_numbers(a) - _numbers(b)) ** 2))


def _numbers(array: np.ndarray) -> np.ndarray:
    """Return finite numbers: NaNs and infinities, which are compared elsewhere, count as 0."""
    return np.nan_to_num(array.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
