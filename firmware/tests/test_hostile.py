"""Programs with a valid flatbuffer and invalid content: every index, size and argument is checked before it is used."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from kernel_cases import values as numbers
from plain_qemu import RunProgram
from programs import Edit, Exported, edited, export, plan, planned, raw, values
from torch import nn

from ethos_hil.harness.image.formats import ErrorKind, FrameType
from ethos_hil.lowering.testing.function_module import keeping

PROGRAM, UNSUPPORTED, KERNEL = ErrorKind.PROGRAM, ErrorKind.UNSUPPORTED, ErrorKind.KERNEL
QUANTIZE = torch.ops.quantized_decomposed.quantize_per_tensor


def branch(net: Any, flag: Any, x: Any) -> Any:
    """A branch, a constant and kernels: all instructions but DelegateCall and FreeCall."""
    ways = (
        lambda value: QUANTIZE(value, 0.5, 0, -128, 127, torch.int8),
        lambda value: QUANTIZE(value, 0.25, 9, -128, 127, torch.int8),
    )
    return torch.cond(flag, *ways, (x,)), QUANTIZE(net.table, 0.5, 0, -128, 127, torch.int8), x.to(torch.int32)


@functools.cache
def branching(*, flag: bool = True) -> Exported:
    net = keeping(branch, table=torch.arange(40.0).reshape(2, 20))
    return export(net, (torch.tensor(flag), torch.linspace(-9, 9, 40).reshape(5, 8)))


def calls(x: Any, at: Any, whole: Any) -> Any:
    """Call every kernel that a row below changes."""
    aten = torch.ops.aten
    image = x.reshape(1, 2, 6, 5)
    return (
        aten.permute.default(x, [1, 0]),
        aten.slice_copy.Tensor(x, 0, 1, 5, 2),
        aten.select_copy.int(x, 1, 2),
        aten.cat.default([x, x], 0),
        aten.expand.default(x, [2, 12, 5]),
        aten.as_strided_copy.default(x, [4, 3], [9, 2], 3),
        aten.repeat.default(x, [2, 1]),
        aten.constant_pad_nd.default(whole, [1, 1], 7),
        aten.convolution.default(image, image[:, :, :3, :3], None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
        aten.embedding.default(x, at),
        aten.index.Tensor(x, [at]),
        aten.index_put.default(x, [at], x[:2]),
        aten.gather.default(x, 0, at.reshape(2, 1)),
        aten.sum.dim_IntList(x, [1]),
        aten.amax.default(x, [0]),
        aten.topk.default(x, 3, 0),
        aten.sort.default(x, 1),
        aten.mm.default(x, x.reshape(5, 12)),
        aten.native_layer_norm.default(x, [5], None, None, 1e-5),
        aten.upsample_nearest2d.vec(image, [12, 10], None),
        aten.add.Tensor(x, x[0]),
        aten.clamp.default(whole, -3, 3),
        aten.remainder.Tensor(whole, whole.abs() + 1),
        aten.split_with_sizes_copy.default(x, [5, 5, 2], 0),
        aten.where.self(x > 0, x, -x),
        aten.gelu.default(x),
        aten.cumsum.default(x, 1),
        aten.arange.start_step(0, 10, 3),
        aten.flip.default(x, [0]),
    )


@functools.cache
def kernels() -> Exported:
    inputs = (numbers("float32", 12, 5), torch.tensor([3, 11]), numbers("int8", 4))
    return export(calls, inputs, run=False, preserve=True)


def steps(program: Any, kind: str) -> list[Any]:
    """Arguments of all instructions of one kind."""
    arguments = [step.instr_args for step in plan(program).chains[0].instructions]
    return [step for step in arguments if type(step).__name__ == kind]


def constant(program: Any) -> Any:
    (tensor,) = (t for t in values(program, "Tensor") if t.allocation_info is None and t.data_buffer_idx)
    return tensor


def put(get: Callable[[Any], Any], name: str, value: Any) -> Edit:
    """Return an edit that sets an attribute of the object that `get` finds in the program."""
    return lambda program: setattr(get(program), name, value)


def item(get: Callable[[Any], list[Any]], index: int, value: Any) -> Edit:
    """Return an edit that sets an element of the list that `get` finds in the program."""
    return lambda program: get(program).__setitem__(index, value)


def append(*new: Any) -> Edit:
    """Return an edit that adds values to the program."""
    from executorch.exir.schema import EValue

    return lambda program: plan(program).values.extend(EValue(value) for value in new)


def items(kind: str, *indices: int) -> Edit:
    """Return an edit that adds a list of values."""
    from executorch.exir import schema

    return append(getattr(schema, kind)(list(indices)))


def text_in(name: str, place: int) -> Edit:
    """Return an edit that puts a text among the inputs or outputs."""
    from executorch.exir import schema

    def edit(program: Any) -> None:
        append(schema.String("text"))(program)
        getattr(plan(program), name)[place:] = [len(plan(program).values) - 1]

    return edit


def freed(program: Any) -> None:
    from executorch.exir.schema import FreeCall, Instruction

    plan(program).chains[0].instructions.append(Instruction(FreeCall(plan(program).outputs[2])))


def endless(program: Any) -> None:
    for position, step in enumerate(plan(program).chains[0].instructions):
        if type(step.instr_args).__name__ == "JumpFalseCall":
            step.instr_args.destination_instruction = position


@pytest.mark.parametrize("flag", [True, False])
def test_the_rebuilt_program_itself_runs(run_program: RunProgram, flag: bool) -> None:
    program = branching(flag=flag)
    tensors = run_program(edited(program.pte, lambda program: None), [program.input_set]).results()
    assert [tensor.data for tensor in tensors] == [raw(output) for output in program.outputs]
    # A scale of zero is useless but valid arithmetic: it ends like any other run.
    useless = put(lambda p: values(p, "Double")[0], "double_val", 0.0)
    run_program(edited(program.pte, useless), [program.input_set]).results()


AT_LOAD = [
    (PROGRAM, put(lambda p: steps(p, "KernelCall")[0], "op_index", 99), "refers to operator 99"),
    (PROGRAM, put(lambda p: steps(p, "KernelCall")[0], "op_index", -1), "refers to operator -1"),
    (PROGRAM, item(lambda p: steps(p, "KernelCall")[0].args, 0, 12345), "refers to value 12345"),
    (PROGRAM, item(lambda p: steps(p, "KernelCall")[0].args, 6, -2), "refers to value -2"),
    (PROGRAM, put(lambda p: steps(p, "MoveCall")[0], "move_from", 5000), "refers to value 5000"),
    (PROGRAM, put(lambda p: steps(p, "MoveCall")[0], "move_to", -7), "refers to value -7"),
    (PROGRAM, put(lambda p: steps(p, "JumpFalseCall")[0], "destination_instruction", 77), "refers to instruction 77"),
    (PROGRAM, put(lambda p: steps(p, "JumpFalseCall")[0], "cond_value_index", 900), "refers to value 900"),
    (PROGRAM, item(lambda p: plan(p).inputs, 0, 4000), "input 0 is value 4000"),
    (PROGRAM, item(lambda p: plan(p).outputs, 1, -4), "output 1 is value -4"),
    (PROGRAM, item(lambda p: values(p, "IntList")[0].items, 0, 1 << 40), "of list"),
    (PROGRAM, put(lambda p: planned(p)[0].allocation_info, "memory_id", 0), "outside the planned memory"),
    (PROGRAM, put(lambda p: planned(p)[0].allocation_info, "memory_id", 2), "outside the planned memory"),
    (PROGRAM, put(lambda p: planned(p)[1].allocation_info, "memory_offset_low", 1 << 31), "outside the planned memory"),
    (PROGRAM, put(lambda p: planned(p)[1].allocation_info, "memory_offset_high", 1), "outside the planned memory"),
    (PROGRAM, put(lambda p: planned(p)[1], "sizes", [1 << 15, 1 << 15]), "makes it too large"),
    (PROGRAM, put(lambda p: planned(p)[1], "sizes", [5, -8]), "makes it too large"),
    (PROGRAM, put(lambda p: planned(p)[1], "sizes", [5, 800]), "outside the planned memory"),
    (PROGRAM, put(lambda p: planned(p)[1], "sizes", [1] * 17), "17 sizes"),
    (PROGRAM, put(lambda p: planned(p)[1], "dim_order", [0, 2]), "not a permutation"),
    (PROGRAM, put(lambda p: planned(p)[1], "dim_order", [0, 0]), "not a permutation"),
    (PROGRAM, put(lambda p: planned(p)[1], "dim_order", [0]), "1 in dim_order"),
    (PROGRAM, put(lambda p: planned(p)[1], "storage_offset", 4), "storage offset 4"),
    (PROGRAM, put(lambda p: planned(p)[1].allocation_info, "memory_offset_low", 2), "not aligned to 4 bytes"),
    (PROGRAM, put(constant, "data_buffer_idx", 50), "constant 50 of"),
    (PROGRAM, put(constant, "sizes", [2, 2000]), "exceeds its segment"),
    (PROGRAM, lambda p: plan(p).chains.append(plan(p).chains[0]), "2 chains"),
    (PROGRAM, lambda p: plan(p).non_const_buffer_sizes.__setitem__(1, -8), "has -8 bytes"),
    (UNSUPPORTED, put(lambda p: planned(p)[1], "shape_dynamism", 2), "without an upper bound"),
    (UNSUPPORTED, put(lambda p: planned(p)[1], "scalar_type", 16), "QUINT4X2"),
    (UNSUPPORTED, text_in("outputs", 3), "output 3 is neither a tensor nor a number"),
    (PROGRAM, put(lambda p: planned(p)[1], "data_buffer_idx", 1), "table 0 of 0 tables of initial values"),
    (UNSUPPORTED, text_in("inputs", 1), "is a list or a string"),
    (PROGRAM, items("IntList", 99), "item 0 of list ... is value 99 of"),
    (PROGRAM, items("IntList", -1), "item 0 of list ... is value -1 of"),
    (PROGRAM, items("TensorList", 99), "item 0 of list ... is value 99 of"),
    (PROGRAM, items("TensorList", -1), "item 0 of list ... is value -1 of"),
    (PROGRAM, items("OptionalTensorList", -2), "item 0 of list ... is value -2 of"),
]
IN_A_RUN = [
    (KERNEL, item(lambda p: steps(p, "KernelCall")[0].args, 0, 0), "instruction"),
    (KERNEL, lambda p: steps(p, "KernelCall")[0].args.pop(), "called with 7 arguments, expected 8"),
    (KERNEL, lambda p: steps(p, "KernelCall")[0].args.clear(), "called with 0 arguments"),
    (
        KERNEL,
        lambda p: steps(p, "KernelCall")[0].args.__setitem__(6, [v.val for v in plan(p).values].index(constant(p))),
        "is a constant tensor and cannot be written",
    ),
    (PROGRAM, lambda p: setattr(steps(p, "JumpFalseCall")[0], "cond_value_index", plan(p).inputs[1]), "is not a bool"),
    (PROGRAM, freed, "output 2 is not a tensor with memory"),
    (PROGRAM, endless, "did not end within 1000000 instructions"),
]


@pytest.mark.parametrize(("kind", "edit", "words"), [*AT_LOAD, *IN_A_RUN])
def test_a_wrong_index_size_or_step_is_refused(
    run_program: RunProgram, kind: ErrorKind, edit: Edit, words: str
) -> None:
    program = branching(flag=edit is not endless)
    conversation = run_program(edited(program.pte, edit), [program.input_set])
    conversation.check_error(kind, *words.split(" ... "))
    assert bool(conversation.all(FrameType.RUN_BEGIN)) == ((kind, edit, words) in IN_A_RUN)


def test_a_list_too_long_for_a_frame_is_complete(run_program: RunProgram) -> None:
    from executorch.exir.schema import Operator

    names = [f"custom::operator_with_a_rather_long_name_{number:03}" for number in range(60)]
    program = edited(branching().pte, lambda p: plan(p).operators.extend(Operator(name, "out") for name in names))
    conversation = run_program(program, [branching().input_set])
    errors = conversation.all(FrameType.ERROR)
    assert len(errors) > 1
    assert {frame.fields["kind"] for frame in errors} == {ErrorKind.UNSUPPORTED}
    text = b" ".join(frame.rest for frame in errors).decode()
    assert [name for name in names if f"operator {name}.out" not in text] == []
    assert conversation.frames[-1].fields["status"] == 1


# --- Calls of kernels with invalid arguments end in an error that names the argument, not in a wild access.


def evalue(values: list[Any], value: object) -> int:
    """Append a new value to a plan and return its index."""
    from executorch.exir import schema

    if isinstance(value, list):
        payload: Any = schema.IntList([evalue(values, item) for item in value])
    elif value is None:
        payload = schema.Null()
    else:
        kinds: dict[type, Any] = {bool: schema.Bool, int: schema.Int, float: schema.Double, str: schema.String}
        payload = kinds[type(value)](value)
    values.append(schema.EValue(payload))
    return len(values) - 1


EditCall = Callable[[Any, list[int]], None]


def argument(position: int, value: object) -> EditCall:
    """Return an edit that sets another value for one argument."""

    def edit(plan: Any, args: list[int]) -> None:
        args[position] = evalue(plan.values, value)

    return edit


def output(**fields: object) -> EditCall:
    """Return an edit that gives the output another type or other sizes."""

    def edit(plan: Any, args: list[int]) -> None:
        from executorch.exir.scalar_type import ScalarType

        tensor = copy.deepcopy(plan.values[args[-1]].val)
        for name, value in fields.items():
            setattr(tensor, name, ScalarType[str(value)] if name == "scalar_type" else value)
        if "sizes" in fields:
            tensor.dim_order = list(range(len(tensor.sizes)))
        plan.values.append(type(plan.values[0])(tensor))
        args[-2:] = [len(plan.values) - 1] * 2

    return edit


def drop(plan: Any, args: list[int]) -> None:
    del args[-1]


@pytest.mark.parametrize(
    ("operator", "edit", "words"),
    [
        ("permute_copy.out", argument(1, [1, 1]), "not a permutation"),
        ("permute_copy.out", argument(1, [0]), "not as many dimensions"),
        ("permute_copy.out", argument(1, [0, 2]), "dimension 2 of a tensor with 2 dimensions"),
        ("permute_copy.out", drop, "called with 3 arguments, expected 4"),
        ("slice_copy.Tensor_out", argument(4, 0), "a step of 0"),
        ("slice_copy.Tensor_out", argument(3, 2**62), "shapes"),
        ("slice_copy.Tensor_out", argument(2, 1.5), "argument 2 is a float, expected an int"),
        ("select_copy.int_out", argument(2, 5), "index 5 in a dimension of 5"),
        ("select_copy.int_out", argument(1, -3), "dimension -3"),
        ("cat.out", argument(1, 1), "shapes"),
        ("cat.out", argument(0, [1, 2]), "argument 0 is a list of ints, expected a list of tensors"),
        ("expand_copy.out", output(sizes=[2, 12, 6]), "shapes"),
        ("as_strided_copy.out", argument(3, 60), "elements beyond the input's 60"),
        ("as_strided_copy.out", argument(2, [30, 2]), "elements beyond the input's 60"),
        ("as_strided_copy.out", argument(2, [-9, 2]), "at a stride of -9"),
        ("as_strided_copy.out", argument(1, [2**31 - 1, 2**31 - 1]), "elements beyond"),
        ("repeat.out", argument(1, [1, 1]), "shapes"),
        ("constant_pad_nd.out", argument(1, [2, 0, 1]), "shapes"),
        ("constant_pad_nd.out", argument(1, [-1, 3]), "shapes"),
        ("constant_pad_nd.out", argument(2, 200), "200 does not fit CHAR"),
        ("convolution.out", argument(3, [0, 1]), "argument 3 has an item 0"),
        ("convolution.out", argument(4, [2**31 - 1] * 2), "expected"),
        ("convolution.out", argument(8, 0), "0 groups"),
        ("convolution.out", argument(8, 2), "shapes"),
        ("convolution.out", argument(6, True), "shapes"),
        ("convolution.out", output(sizes=[1, 1, 6, 6]), "dimension 3 is 6, expected 5"),
        ("embedding.out", argument(0, None), "argument 0 is none, expected a tensor"),
        ("embedding.out", output(sizes=[2, 6]), "shapes"),
        ("index.Tensor_out", output(sizes=[3, 5]), "shapes"),
        ("index_put.out", output(sizes=[12, 4]), "shapes"),
        ("index_put.out", argument(3, 0.5), "argument 3 is a float, expected an int"),
        ("gather.out", output(sizes=[3, 1]), "differ in shape"),
        ("sum.IntList_out", argument(1, [2]), "dimension 2"),
        ("sum.IntList_out", argument(1, [0]), "shapes"),
        ("amax.out", output(scalar_type="INT"), "FLOAT to INT"),
        ("topk.values", argument(1, 13), "13 of a dimension of 12"),
        ("topk.values", argument(1, -1), "-1 of a dimension of 12"),
        ("sort.values", argument(1, 2), "dimension 2"),
        ("mm.out", output(sizes=[12, 13]), "shapes"),
        ("mm.out", output(scalar_type="INT"), "the types of matrices differ"),
        ("native_layer_norm.out", argument(1, [6]), "shapes"),
        ("upsample_nearest2d.vec_out", argument(1, [13, 10]), "shapes"),
        ("upsample_nearest2d.vec_out", argument(1, [0, 10]), "shapes"),
        ("add.out", output(sizes=[12, 4]), "cannot be broadcast"),
        ("add.out", output(sizes=[2, 12, 5]), "the output is larger than what goes into it"),
        ("add.out", output(scalar_type="CHAR"), "FLOAT to CHAR is not supported"),
        ("clamp.out", argument(1, 300), "limit 300 does not fit CHAR"),
        ("remainder.Tensor_out", argument(1, 0), "division by zero"),
        ("split_with_sizes_copy.out", argument(1, [5, -5, 12]), "shapes"),
        ("split_with_sizes_copy.out", argument(1, [5, 7]), "shapes"),
        ("where.self_out", argument(0, 1), "argument 0 is an int, expected a tensor"),
        ("gelu.out", argument(1, "cosh"), 'neither "none" nor "tanh"'),
        ("cumsum.out", argument(1, 2), "dimension 2"),
        ("cumsum.out", output(scalar_type="LONG"), "FLOAT to LONG"),
        ("arange.start_out", argument(1, 13), "not as many elements"),
        ("arange.start_out", argument(2, 0), "not as many elements"),
        ("flip.out", argument(1, [9]), "dimension 9"),
    ],
)
def test_a_wrong_argument_is_named(run_program: RunProgram, operator: str, edit: EditCall, words: str) -> None:
    def change(program: Any) -> None:
        names = [f"{op.name}.{op.overload}" for op in plan(program).operators]
        calls = (step.instr_args for step in plan(program).chains[0].instructions)
        edit(plan(program), next(call for call in calls if names[call.op_index] == f"aten::{operator}").args)

    conversation = run_program(edited(kernels().pte, change), [kernels().input_set])
    conversation.check_error(KERNEL, f"aten::{operator.split('.')[0]}: ", words)


def test_the_program_of_all_calls_itself_runs(run_program: RunProgram) -> None:
    run_program(kernels()).results()


def picked(index: int) -> tuple[Any, tuple[Any, ...], str]:
    def pick(x: Any, at: Any) -> Any:
        return torch.ops.aten.index_select.default(x, 0, at)

    words = f"instruction 0, aten::index_select: index {index} in a dimension of 3"
    return pick, (numbers("float32", 3, 2), torch.tensor([0, index])), words


@pytest.mark.parametrize(
    ("called", "inputs", "words"),
    [
        *map(picked, (3, -4, 2**40)),
        (nn.AvgPool2d(2), (torch.ones(1, 3, 4, 4, dtype=torch.int64),), "avg_pool2d ... is not supported"),
        (nn.MaxPool2d(2), (torch.ones(1, 3, 4, 4, dtype=torch.int64),), "max_pool2d ... is not supported"),
        (nn.BatchNorm2d(3).double().eval(), (torch.ones(1, 3, 4, 4).double(),), "batch_norm ... is not supported"),
    ],
)
def test_other_values_and_types_are_refused_by_name(
    run_program: RunProgram, called: Any, inputs: tuple[Any, ...], words: str
) -> None:
    run_program(export(called, inputs, run=False)).check_error(KERNEL, *words.split(" ... "))
