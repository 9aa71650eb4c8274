"""Programs with a valid flatbuffer and invalid content: every index and size is checked before it is used."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from plain_qemu import RunProgram
from programs import Exported, export, raw

from ethos_hil.harness.image.formats import ErrorKind, FrameType

Edit = Callable[[Any], None]


@pytest.fixture(scope="module")
def exported() -> Exported:
    """Return a program with a branch, a constant and kernels: all instructions but DelegateCall and FreeCall."""
    quantize = torch.ops.quantized_decomposed.quantize_per_tensor

    class Program(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.arange(40.0).reshape(2, 20))

        def forward(self, flag: Any, x: Any) -> Any:
            branch = torch.cond(
                flag,
                lambda value: quantize(value, 0.5, 0, -128, 127, torch.int8),
                lambda value: quantize(value, 0.25, 9, -128, 127, torch.int8),
                (x,),
            )
            return branch, quantize(self.table, 0.5, 0, -128, 127, torch.int8), x.to(torch.int32)

    return export(Program(), (torch.tensor(True), torch.linspace(-9, 9, 40).reshape(5, 8)))


@pytest.fixture(scope="module")
def original(exported: Exported) -> Any:
    from executorch.exir._serialize._program import deserialize_pte_binary

    return deserialize_pte_binary(exported.pte)


def rebuild(original: Any, edit: Edit) -> bytes:
    from executorch.exir._serialize._program import serialize_pte_binary

    file = copy.deepcopy(original)
    edit(file.program)
    return bytes(serialize_pte_binary(file))


def plan(program: Any) -> Any:
    return program.execution_plan[0]


def steps(program: Any, kind: str) -> list[Any]:
    """Arguments of all instructions of one kind."""
    arguments = [step.instr_args for step in plan(program).chains[0].instructions]
    return [step for step in arguments if type(step).__name__ == kind]


def values(program: Any, kind: str) -> list[Any]:
    return [value.val for value in plan(program).values if type(value.val).__name__ == kind]


def planned(program: Any) -> list[Any]:
    return [tensor for tensor in values(program, "Tensor") if tensor.allocation_info is not None]


def constant(program: Any) -> Any:
    (tensor,) = (t for t in values(program, "Tensor") if t.allocation_info is None and t.data_buffer_idx)
    return tensor


def put(get: Callable[[Any], Any], name: str, value: Any) -> Edit:
    """Return an edit that sets an attribute of the object that `get` finds in the program."""
    return lambda program: setattr(get(program), name, value)


def item(get: Callable[[Any], list[Any]], index: int, value: Any) -> Edit:
    """Return an edit that sets an element of the list that `get` finds in the program."""
    return lambda program: get(program).__setitem__(index, value)


def test_the_rebuilt_program_itself_runs(run_program: RunProgram, exported: Exported, original: Any) -> None:
    conversation = run_program(rebuild(original, lambda program: None), [exported.input_set])
    assert [tensor.data for tensor in conversation.tensors()] == [raw(output) for output in exported.outputs]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (put(lambda p: steps(p, "KernelCall")[0], "op_index", 99), "refers to operator 99"),
        (put(lambda p: steps(p, "KernelCall")[0], "op_index", -1), "refers to operator -1"),
        (item(lambda p: steps(p, "KernelCall")[0].args, 0, 12345), "refers to value 12345"),
        (item(lambda p: steps(p, "KernelCall")[0].args, 6, -2), "refers to value -2"),
        (put(lambda p: steps(p, "MoveCall")[0], "move_from", 5000), "refers to value 5000"),
        (put(lambda p: steps(p, "MoveCall")[0], "move_to", -7), "refers to value -7"),
        (put(lambda p: steps(p, "JumpFalseCall")[0], "destination_instruction", 77), "refers to instruction 77"),
        (put(lambda p: steps(p, "JumpFalseCall")[0], "cond_value_index", 900), "refers to value 900"),
        (item(lambda p: plan(p).inputs, 0, 4000), "input 0 is value 4000"),
        (item(lambda p: plan(p).outputs, 1, -4), "output 1 is value -4"),
        (item(lambda p: values(p, "IntList")[0].items, 0, 1 << 40), "of list"),
        (put(lambda p: planned(p)[0].allocation_info, "memory_id", 0), "outside the planned memory"),
        (put(lambda p: planned(p)[0].allocation_info, "memory_id", 2), "outside the planned memory"),
        (put(lambda p: planned(p)[1].allocation_info, "memory_offset_low", 1 << 31), "outside the planned memory"),
        (put(lambda p: planned(p)[1].allocation_info, "memory_offset_high", 1), "outside the planned memory"),
        (put(lambda p: planned(p)[1], "sizes", [1 << 15, 1 << 15]), "makes it too large"),
        (put(lambda p: planned(p)[1], "sizes", [5, -8]), "makes it too large"),
        (put(lambda p: planned(p)[1], "sizes", [5, 800]), "outside the planned memory"),
        (put(lambda p: planned(p)[1], "sizes", [1] * 17), "17 sizes"),
        (put(lambda p: planned(p)[1], "dim_order", [0, 2]), "not a permutation"),
        (put(lambda p: planned(p)[1], "dim_order", [0, 0]), "not a permutation"),
        (put(lambda p: planned(p)[1], "dim_order", [0]), "1 in dim_order"),
        (put(lambda p: planned(p)[1], "storage_offset", 4), "storage offset 4"),
        (put(lambda p: planned(p)[1].allocation_info, "memory_offset_low", 2), "not aligned to 4 bytes"),
        (put(constant, "data_buffer_idx", 50), "constant 50 of"),
        (put(constant, "sizes", [2, 2000]), "exceeds its segment"),
        (lambda p: plan(p).chains.append(plan(p).chains[0]), "2 chains"),
        (lambda p: plan(p).non_const_buffer_sizes.__setitem__(1, -8), "has -8 bytes"),
    ],
)
def test_a_wrong_index_or_size_is_refused(
    run_program: RunProgram, exported: Exported, original: Any, edit: Edit, words: str
) -> None:
    conversation = run_program(rebuild(original, edit), [exported.input_set])
    conversation.check_error(ErrorKind.PROGRAM, words)
    assert not conversation.all(FrameType.RUN_BEGIN)


@pytest.mark.parametrize(
    ("edit", "kind", "words"),
    [
        (put(lambda p: planned(p)[1], "shape_dynamism", 2), ErrorKind.UNSUPPORTED, "without an upper bound"),
        (put(lambda p: planned(p)[1], "scalar_type", 16), ErrorKind.UNSUPPORTED, "QUINT4X2"),
        (put(lambda p: planned(p)[1], "data_buffer_idx", 1), ErrorKind.PROGRAM, "tables of initial values"),
        (item(lambda p: steps(p, "KernelCall")[0].args, 0, 0), ErrorKind.KERNEL, "instruction"),
        (lambda p: steps(p, "KernelCall")[0].args.pop(), ErrorKind.KERNEL, "called with 7 arguments, expected 8"),
        (lambda p: steps(p, "KernelCall")[0].args.clear(), ErrorKind.KERNEL, "called with 0 arguments"),
        (
            lambda p: steps(p, "KernelCall")[0].args.__setitem__(6, [v.val for v in plan(p).values].index(constant(p))),
            ErrorKind.KERNEL,
            "is a constant tensor and cannot be written",
        ),
        (put(lambda p: values(p, "Double")[0], "double_val", 0.0), None, ""),
        (
            lambda p: setattr(steps(p, "JumpFalseCall")[0], "cond_value_index", plan(p).inputs[1]),
            ErrorKind.PROGRAM,
            "is not a bool",
        ),
    ],
)
def test_impossible_steps_are_named(
    run_program: RunProgram, exported: Exported, original: Any, edit: Edit, kind: ErrorKind | None, words: str
) -> None:
    conversation = run_program(rebuild(original, edit), [exported.input_set])
    if kind is None:
        # A scale of zero is useless but valid arithmetic: it ends like any other run.
        assert conversation.one(FrameType.END).fields["status"] == 0
        return
    error, text = conversation.error()
    assert error is kind
    assert words in text


def test_a_program_that_never_ends_is_ended(run_program: RunProgram, exported: Exported, original: Any) -> None:
    def loop(program: Any) -> None:
        for position, step in enumerate(plan(program).chains[0].instructions):
            if type(step.instr_args).__name__ == "JumpFalseCall":
                step.instr_args.destination_instruction = position

    false = bytes(1)
    run_program(rebuild(original, loop), [(false, *exported.input_set[1:])]).check_error(
        ErrorKind.PROGRAM, "did not end within 1000000 instructions"
    )


def test_a_tensor_given_back_has_no_memory(run_program: RunProgram, exported: Exported, original: Any) -> None:
    from executorch.exir.schema import FreeCall, Instruction

    def free_first(program: Any) -> None:
        chain = plan(program).chains[0]
        chain.instructions.append(Instruction(FreeCall(plan(program).outputs[2])))

    program = rebuild(original, free_first)
    run_program(program, [exported.input_set]).check_error(ErrorKind.PROGRAM, "output 2 is not a tensor with memory")


def test_a_list_too_long_for_a_frame_is_complete(run_program: RunProgram, exported: Exported, original: Any) -> None:
    from executorch.exir.schema import Operator

    names = [f"custom::operator_with_a_rather_long_name_{number:03}" for number in range(60)]
    program = rebuild(original, lambda p: plan(p).operators.extend(Operator(name, "out") for name in names))
    conversation = run_program(program, [exported.input_set])
    errors = conversation.all(FrameType.ERROR)
    assert len(errors) > 1
    assert {frame.fields["kind"] for frame in errors} == {ErrorKind.UNSUPPORTED}
    text = b" ".join(frame.rest for frame in errors).decode()
    assert [name for name in names if f"operator {name}.out" not in text] == []
    assert conversation.frames[-1].fields["status"] == 1
