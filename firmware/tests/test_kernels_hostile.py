"""Calls of kernels with invalid arguments end in an error that names the argument, not in a wild access."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from kernel_cases import values
from plain_qemu import RunProgram
from programs import Exported, edited, export

from ethos_hil.harness.image.formats import ErrorKind, FrameType


@pytest.fixture(scope="module")
def exported() -> Exported:
    """Return a program with one call of every kernel that an edit below changes."""

    def calls(x: Any, at: Any, whole: Any) -> Any:
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

    inputs = (values("float32", 12, 5), torch.tensor([3, 11]), values("int8", 4))
    return export(calls, inputs, run=False, preserve=True)


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


Edit = Callable[[Any, list[int]], None]


def argument(position: int, value: object) -> Edit:
    """Return an edit that sets another value for one argument."""

    def edit(plan: Any, args: list[int]) -> None:
        args[position] = evalue(plan.values, value)

    return edit


def output(**fields: object) -> Edit:
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


def run_edited(run_program: RunProgram, exported: Exported, operator: str, edit: Edit | None) -> Any:
    def change(program: Any) -> None:
        (plan,) = program.execution_plan
        names = [f"{op.name}.{op.overload}" for op in plan.operators]
        calls = [step.instr_args for step in plan.chains[0].instructions]
        if edit is not None:
            call = next(call for call in calls if names[call.op_index] == f"aten::{operator}")
            edit(plan, call.args)

    return run_program(edited(exported.pte, change), [exported.input_set])


def test_the_program_itself_runs(run_program: RunProgram, exported: Exported) -> None:
    assert run_edited(run_program, exported, "", None).one(FrameType.END).fields["status"] == 0


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
def test_a_wrong_argument_is_named(
    run_program: RunProgram, exported: Exported, operator: str, edit: Edit, words: str
) -> None:
    run_edited(run_program, exported, operator, edit).check_error(
        ErrorKind.KERNEL, f"aten::{operator.split('.')[0]}: ", words
    )
