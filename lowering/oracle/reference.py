"""The oracle: the right answer of a lowered program, computed on the host.

It executes the .pte's own instructions: delegates with tosa_reference_model on the TOSA program they were compiled
from, the rest with `ethos_hil.lowering.oracle.kernels`. No run goes without an oracle: a reference model that can't be
imported, fails, ends its process (`ethos_hil.lowering.native`), or does not report TOSA_VALID raises OracleError.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

import numpy as np

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.errors import OracleError, UndefinedAnswer, UsageError
from ethos_hil.lowering.artifact import Artifact, Delegate
from ethos_hil.lowering.cache.environments import KeptEnvironments, PipFailed
from ethos_hil.lowering.conditions.process import tell
from ethos_hil.lowering.formats.pte_model import DelegateCall, JumpFalseCall, KernelCall, MoveCall, Tensor
from ethos_hil.lowering.formats.tosa import TosaGraph, TosaOperator, TosaTensor, unknown_parts
from ethos_hil.lowering.formats.tosa_draft import TosaDraft
from ethos_hil.lowering.native.failing_operator import PART_SECONDS, failing_operator, prefix
from ethos_hil.lowering.native.worker import (
    LIMIT_SECONDS,
    REFERENCE_MODEL,
    NativeCrash,
    NativeTool,
    ToolAnswer,
    ToolRaised,
)
from ethos_hil.lowering.oracle.kernels import Store, run_kernel
from ethos_hil.lowering.oracle.overflow import ProductOverflow, line_of, overflow_at, overflowing_product

_MAX_STEPS = 100_000
_OVERFLOW = (
    "TOSA defines no answer where whole numbers leave int32: give the operation numbers whose results fit, or leave it "
    "to the CPU (--leave), which wraps around as PyTorch does"
)
_UNDEFINED = {
    **dict.fromkeys(("ADD", "SUB", "MUL", "NEGATE", "ABS", "REDUCE_SUM", "LOGICAL_LEFT_SHIFT", "MATMUL"), _OVERFLOW),
    "TABLE": "a table of 16 bits has no steps of more than 32767, as of a function beside a pole: keep its input from "
    "there, as with clamp, or quantise it to 8 bits",
    "GATHER": "an index is beyond the table that it picks from: look at the inputs",
    "SCATTER": "an index is beyond what is written to, or there twice: look at the inputs",
}
"""What helps, by the operator without an answer."""
_PICKING = ("GATHER", "SCATTER")
"""What reads or writes where an index says, and crashes where that is not the tensor's memory."""
_CRASH_HINT = "there is no right answer to compare with; change that operation, its shapes or the inputs"
_UNDEFINED_ELSEWHERE = "try inputs of the size that the model was calibrated with"


@dataclass(frozen=True)
class ReferenceRun:
    """The answer to one input set.

    Attributes:
        outputs: the program's outputs, in the program's types and logical shapes.
        delegate_outputs: the outputs of each delegate call, by the call's instruction index (of the last time it ran).
        delegate_inputs: the inputs of each delegate call, shaped as the delegate's TOSA program takes them.
        later: of a program that keeps state, the answers of further executions with the same inputs, in order.
    """

    outputs: tuple[np.ndarray, ...]
    delegate_outputs: Mapping[int, tuple[np.ndarray, ...]]
    delegate_inputs: Mapping[int, tuple[np.ndarray, ...]] = field(default_factory=dict)
    later: tuple[ReferenceRun, ...] = ()

    def of(self, repeat: int) -> ReferenceRun:
        """Return the answer of one execution with these inputs, counted from 0."""
        return self.later[repeat - 1] if self.later and repeat else self


class Reference:
    """Answers input sets for one artifact.

    A program that keeps state starts with what is in it, or with zeros, and each execution continues where the last one
    ended.

    Raises OracleError when the artifact has no TOSA program (a .pte that was not lowered here) or the reference model
    is missing.
    """

    def __init__(self, artifact: Artifact) -> None:
        self._plan = artifact.plan
        self._kept = Store(self._plan) if self._plan.state else None
        self._tosa: dict[int, bytes] = {}
        for delegate in artifact.delegates:
            if delegate.tosa is None:
                raise OracleError(
                    f"{artifact.model} was not lowered here, so its delegates have no TOSA program to compare with",
                    hint="run the model it was made from (file.py:function or .pt2) instead of the .pte",
                )
            self._tosa[delegate.instruction] = delegate.tosa
        self._made_with = artifact.versions.get("tosa-tools", "")
        self._delegates = {delegate.instruction: delegate for delegate in artifact.delegates}
        self._programs = {at: TosaGraph.parse(tosa) for at, tosa in self._tosa.items()}
        for at, tosa in self._tosa.items():  # a missing model is reported before anything runs
            reference_model_for(tosa, f"instruction {at}", self._made_with)

    def run(self, inputs: Sequence[np.ndarray], repeat: int = 1) -> ReferenceRun:
        """Compute the answer to one input set.

        Args:
            inputs: arrays of the types and logical shapes of the program's inputs that are tensors.
            repeat: executions with these inputs; more than one only matters to a program that keeps state.

        Raises:
            UsageError: inputs of another count, shape or type.
            OracleError: there is no valid answer.
        """
        first = self._execution(inputs)
        if not self._plan.state or repeat == 1:
            return first
        return dataclasses.replace(first, later=tuple(self._execution(inputs) for _ in range(repeat - 1)))

    def _execution(self, inputs: Sequence[np.ndarray]) -> ReferenceRun:
        plan = self._plan
        store = Store(plan) if self._kept is None else self._kept
        store.restart()
        # An input that is not a tensor keeps the value it was exported with, as in upstream's runner.
        tensors = [index for index in plan.inputs if isinstance(plan.values[index], Tensor)]
        for index, array in zip(tensors, check_inputs([plan.tensor(index) for index in tensors], inputs), strict=True):
            store.set(index, array)
        delegate_outputs: dict[int, tuple[np.ndarray, ...]] = {}
        delegate_inputs: dict[int, tuple[np.ndarray, ...]] = {}
        at = steps = 0
        while at < len(plan.instructions):
            steps += 1
            if steps > _MAX_STEPS:
                raise OracleError(f"the program did not end within {_MAX_STEPS} instructions")
            instruction = plan.instructions[at]
            following = at + 1
            if isinstance(instruction, KernelCall):
                run_kernel(instruction, store)
            elif isinstance(instruction, DelegateCall):
                delegate_inputs[at] = self._delegate_inputs(at, instruction, store)
                delegate_outputs[at] = self._delegate(at, instruction, store, delegate_inputs[at])
            elif isinstance(instruction, MoveCall):
                store.move(instruction.source, instruction.target)
            elif isinstance(instruction, JumpFalseCall):
                following = following if store.is_true(instruction.condition) else instruction.destination
            at = following  # a FreeCall needs no action here
        outputs = tuple(np.array(store.get(index), order="C") for index in plan.outputs)
        return ReferenceRun(outputs, delegate_outputs, delegate_inputs)

    def _delegate_inputs(self, at: int, call: DelegateCall, store: Store) -> tuple[np.ndarray, ...]:
        program = self._programs[at]
        if len(call.args) != len(program.inputs) + len(program.outputs):
            raise OracleError(
                f"instruction {at} passes {len(call.args)} tensors, its TOSA program takes {len(program.inputs)} and "
                f"gives {len(program.outputs)}"
            )
        return tuple(
            _to_tosa(store.get(index), store.tensor(index), side)
            for index, side in zip(call.args, program.inputs, strict=False)
        )

    def _delegate(
        self, at: int, call: DelegateCall, store: Store, inputs: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, ...]:
        answers = evaluate(
            self._tosa[at], inputs, f"instruction {at}", self._made_with, partial(line_of, self._delegates[at])
        )
        targets = call.args[len(inputs) :]
        if len(answers) != len(targets):
            raise OracleError(f"the reference model gave {len(answers)} outputs, expected {len(targets)}")
        results = tuple(_from_tosa(array, store.tensor(index)) for array, index in zip(answers, targets, strict=True))
        for index, array in zip(targets, results, strict=True):
            store.set(index, array)
        return results


def evaluate(
    tosa: bytes,
    inputs: Sequence[np.ndarray],
    what: str,
    made_with: str = "",
    line: Callable[[TosaOperator], str] = lambda operator: "",
) -> tuple[np.ndarray, ...]:
    """Return the outputs of a TOSA program, as tosa_reference_model computes them.

    Args:
        tosa: the program's flatbuffer.
        inputs: of the shapes and types of its inputs.
        what: the program's name in an error, for example "instruction 3".
        made_with: the version of tosa-tools that it was made with, "" where that is not known: its reference model
            answers where that of here is too old for the program.
        line: says which part of the user's model an operator is, in an error: " of aten.tan at net.py:12".

    Raises:
        UndefinedAnswer: the model does not report TOSA_VALID.
        OracleError: the model is missing or fails.
    """
    tool = reference_model_for(tosa, what, made_with)
    arrays = [np.asarray(values, order="C") for values in inputs]
    try:
        answer = _call(tool, tosa, arrays)
    except ToolRaised as error:
        raise OracleError(f"tosa_reference_model failed on {what}: {error}".split("\n")[0]) from error
    if isinstance(answer, NativeCrash) or not answer.header["valid"]:
        raise _without_answer(tool, tosa, arrays, answer, what, made_with, line)
    return tuple(
        np.frombuffer(block, kind).reshape(shape).copy()
        for block, (kind, shape) in zip(answer.blocks, answer.header["arrays"], strict=True)
    )


def _without_answer(
    tool: NativeTool,
    tosa: bytes,
    arrays: Sequence[np.ndarray],
    answer: ToolAnswer | NativeCrash,
    what: str,
    made_with: str,
    line: Callable[[TosaOperator], str],
) -> OracleError:
    """Return the error of a program that has no answer. It names the first operator that has none.

    That may be one before the operator on which the model crashes: what TOSA does not define may be any number.
    """

    def ends(part: bytes) -> bool:
        try:
            return not _is_valid(_call(tool, part, arrays, PART_SECONDS))
        except ToolRaised:
            return False

    operator = failing_operator(tosa, ends)
    name, place, overflow = "", "", None
    if operator is not None:
        name, place = operator.op, f", on {operator}{line(operator)}"
        part = _call(tool, prefix(tosa, operator.index + 1), arrays, PART_SECONDS)
        answer = answer if _is_valid(part) else part  # the search may have met with chance
    if isinstance(answer, NativeCrash):
        error = OracleError(
            f"tosa_reference_model {tool.version} {answer.how} while it computed {what}{place}{answer.said}",
            hint=_UNDEFINED[name] if name in _PICKING else _CRASH_HINT,
        )
        error.__cause__ = answer
        return error
    if operator is not None:
        overflow = overflow_at(tosa, arrays, operator, lambda part: evaluate(part, arrays, what, made_with))
    place += f", whose result {overflow} does not fit int32" if overflow is not None else ""
    return UndefinedAnswer(
        f"tosa_reference_model reports {answer.header['status']} for {what}{place}, not TOSA_VALID: "
        "its outputs are not a reference",
        hint=_UNDEFINED.get(name, _UNDEFINED_ELSEWHERE),
    )


def _is_valid(answer: ToolAnswer | NativeCrash) -> bool:
    return not isinstance(answer, NativeCrash) and bool(answer.header["valid"])


def _call(
    tool: NativeTool, tosa: bytes, arrays: Sequence[np.ndarray], seconds: int = LIMIT_SECONDS
) -> ToolAnswer | NativeCrash:
    """Return what the tool answers, or how it ended. Raises ToolRaised."""
    header = {"arrays": [[array.dtype.str, array.shape] for array in arrays]}
    try:
        return tool.call(header, [tosa, *(array.tobytes() for array in arrays)], seconds=seconds)
    except NativeCrash as crash:
        return crash


def product_overflow(delegate: Delegate, inputs: Sequence[np.ndarray]) -> ProductOverflow | None:
    """Return the first product of a delegate's inputs that does not fit int32, or None.

    Raises:
        OracleError: the reference model cannot compute its program.
    """
    what = f"a part of delegate {delegate.index}"
    return overflowing_product(delegate, inputs, lambda tosa: evaluate(tosa, inputs, what))


def check_inputs(expected: Sequence[Tensor], inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Return the inputs as arrays. Raises UsageError, which names the first that the program does not expect."""
    wanted = ", ".join(str(tensor) for tensor in expected)
    if len(inputs) != len(expected):
        raise UsageError(f"{len(inputs)} inputs given, the program takes {len(expected)}", hint=f"it takes {wanted}")
    arrays = tuple(np.asarray(value) for value in inputs)
    for index, (tensor, array) in enumerate(zip(expected, arrays, strict=True)):
        if array.shape != tensor.sizes or array.dtype != tensor.dtype:
            form = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
            raise UsageError(f"input {index} is {form}, the program expects {tensor}", hint=f"it takes {wanted}")
    return arrays


def _to_tosa(array: np.ndarray, tensor: Tensor, side: TosaTensor) -> np.ndarray:
    """Return a copy in the shape of the TOSA program: that of the order in memory, which a delegate gets as it is."""
    ordered = np.array(array.transpose(tensor.dim_order), order="C")
    if not _same_bytes(ordered.shape, side.shape):
        raise OracleError(f"tensor {tensor} in memory order is {ordered.shape}, its TOSA program takes {side.shape}")
    return ordered.reshape(side.shape)


def _from_tosa(array: np.ndarray, tensor: Tensor) -> np.ndarray:
    ordered = tuple(tensor.sizes[axis] for axis in tensor.dim_order)
    if not _same_bytes(array.shape, ordered) or array.dtype != tensor.dtype:
        raise OracleError(f"the reference model gave {array.dtype} {array.shape}, expected {tensor} as {ordered}")
    return np.ascontiguousarray(array.reshape(ordered).transpose(np.argsort(tensor.dim_order))).reshape(tensor.sizes)


def _same_bytes(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether two shapes, in the order of memory, lay the same elements at the same places.

    Where an axis of size 1 stands in the order of memory says nothing: torch's `dim_order` and ExecuTorch's
    (exir/tensor.py, executorch 1.5.1) put it at different places, and TOSA follows the former, the program the latter.
    """
    return [size for size in one if size != 1] == [size for size in other if size != 1]


def reference_model_for(tosa: bytes, what: str, made_with: str = "") -> NativeTool:
    """Return the tosa_reference_model for a program: that of here, or that of the tosa-tools that made the program,
    which are installed where they are not kept.

    Raises:
        OracleError: the program has something that the model of here does not know, and there is no other one; or it
            cannot be imported.
    """
    unknown = unknown_parts(tosa)
    if not unknown:
        require_reference_model()
        return REFERENCE_MODEL
    here = REFERENCE_MODEL.version
    text = f"{what} has {', '.join(unknown)}, which tosa-tools {here} does not know"
    if made_with in ("", "missing", here):
        raise OracleError(text, hint="lower with a version of ExecuTorch that tosa-tools of here knows")
    try:
        return _newer_model(made_with)
    except (PipFailed, ToolRaised, NativeCrash) as error:
        raise OracleError(f"{text}; those that it was made with cannot be used: {made_with}: {error}") from error


@cache
def _newer_model(version: str) -> NativeTool:
    environment = KeptEnvironments().get(REFERENCE_MODEL.package, version, tell)
    model = NativeTool(
        REFERENCE_MODEL.tool, REFERENCE_MODEL.name, REFERENCE_MODEL.package, path=environment.alone, version=version
    )
    model.require()
    return model


def require_reference_model() -> None:
    """Check that tosa_reference_model can be used. Raises OracleError when it cannot be imported."""
    try:
        REFERENCE_MODEL.require()
    except (ToolRaised, NativeCrash) as error:
        raise OracleError(
            f"tosa_reference_model cannot be imported: {error}",
            hint="install the tested set again (docs/install.md)",
        ) from error


# The intermediate tensors of a TOSA program.
#
# A program is rewritten so that chosen intermediate tensors are outputs too. Then tosa_reference_model computes the
# right value of each.

_VALUES = {"BOOL", "INT8", "INT16", "INT32"}


def computed_tensors(graph: TosaGraph) -> tuple[str, ...]:
    """Return the names of the tensors that the program's operators compute, in their order, and that can be outputs.

    Constants, shapes, and accumulators of 48 bits are left out: tosa_reference_model cannot return these.
    """
    names = (name for operator in graph.operators if not operator.is_constant for name in operator.outputs)
    return tuple(name for name in names if name in graph.tensors and graph.tensors[name].dtype in _VALUES)


def with_outputs(tosa: bytes, names: Sequence[str]) -> bytes:
    """Return the same program with the tensors `names` as its outputs (computed ones, each once)."""
    draft = TosaDraft(tosa)
    draft.blocks[0].replace_outputs(names)
    return draft.finish()


def tensor_values(tosa: bytes, inputs: Sequence[np.ndarray], names: Sequence[str]) -> Mapping[str, np.ndarray]:
    """Return the value that tosa_reference_model computes for each of `names`, in the tensors' shapes.

    Raises:
        OracleError: it gives no valid answer.
    """
    answers = evaluate(with_outputs(tosa, names), inputs, f"a program with {len(names)} tensors as outputs")
    return dict(zip(names, answers, strict=True))
