"""Features of a .pte beyond a chain of kernels: lists, variables, several methods, values placed by the user."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import torch
from plain_qemu import RunFiles, RunProgram
from programs import Exported, edited, export, plan, planned, raw
from test_runner import write_files

from ethos_hil.harness.image.formats import ErrorKind, FrameType
from ethos_hil.lowering.testing.function_module import keeping, module_of


def torch_export(function: Any, inputs: tuple[Any, ...], **settings: Any) -> Any:
    return torch.export.export(module_of(function), inputs, **settings)


def to_pte(methods: Any, config: Any = None, **edge: Any) -> bytes:
    """Exported program(s) without delegates as a .pte."""
    from executorch.exir import EdgeCompileConfig, to_edge

    importlib.import_module("executorch.kernels.quantized")
    lowered = to_edge(methods, compile_config=EdgeCompileConfig(_check_ir_validity=False), **edge)
    return bytes(lowered.to_executorch(config).buffer)


def test_a_variable_starts_with_its_value_and_keeps_changes(run_program: RunProgram) -> None:
    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
    from executorch.runtime import Runtime

    def add_up(net: Any, x: Any) -> Any:
        net.sum.add_(x)
        return net.sum.clone()

    x = torch.full((2, 3), 0.5)
    config = ExecutorchBackendConfig(passes=[InitializedMutableBufferPass(["sum"])])
    pte = to_pte(torch_export(keeping(add_up, sum=torch.arange(6.0).reshape(2, 3)), (x,)), config)
    conversation = run_program(pte, [(raw(x),)], repeat=3)
    method = Runtime.get().load_program(pte).load_method("forward")
    expected = [output.clone() for _ in range(3) for output in method.execute([x])]
    assert torch.equal(expected[2], torch.arange(6.0).reshape(2, 3) + 1.5), "the program is what it should be"
    assert [tensor.data for tensor in conversation.results()] == [raw(output) for output in expected]


def test_methods_are_chosen_by_name(run_program: RunProgram) -> None:
    x = torch.rand(2, 3)
    methods = {"forward": torch_export(lambda x: x + 1, (x,)), "flat": torch_export(lambda x: x.reshape(6), (x,))}
    constants = {"answer": 42, "ratio": 2.5, "ready": True, "table": torch.arange(3)}
    pte = to_pte(methods, constant_methods=constants)
    for method, expected in (("forward", x + 1), ("flat", x.reshape(6))):
        (tensor,) = run_program(pte, [(raw(x),)], method=method).results()
        assert (tensor.data, tensor.sizes) == (raw(expected), tuple(expected.shape))
    outputs = {}
    for method in constants:
        (tensor,) = run_program(pte, [()], method=method).results()
        outputs[method] = (tensor.info["dtype"], tensor.sizes, tensor.data)
    assert outputs == {
        "answer": (4, (), np.int64(42).tobytes()),
        "ratio": (7, (), np.float64(2.5).tobytes()),
        "ready": (11, (), b"\1"),
        "table": (4, (3,), np.arange(3, dtype=np.int64).tobytes()),
    }


def test_inputs_and_outputs_without_planned_memory_get_some(run_program: RunProgram) -> None:
    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.passes import MemoryPlanningPass

    inputs = (torch.rand(40, 3), torch.rand(40, 3))
    planning = MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False)
    program = torch_export(lambda x, y: (x + y, x.clone()), inputs)
    pte = to_pte(program, ExecutorchBackendConfig(memory_planning_pass=planning))
    conversation = run_program(pte, [[raw(x) for x in inputs]] * 2)
    loaded = conversation.one(FrameType.LOADED).fields
    assert loaded["planned_bytes"] == 0
    assert loaded["sram_used"] >= 4 * 480
    expected = [raw(inputs[0] + inputs[1]), raw(inputs[0])]
    assert [tensor.data for tensor in conversation.results()] == expected * 2


def test_a_shape_with_an_upper_bound_is_run_at_the_bound(run_program: RunProgram) -> None:
    batch = torch.export.Dim("batch", max=8)
    program = torch_export(lambda x: x * 0.5, (torch.rand(4, 3),), dynamic_shapes=(({0: batch},),))
    pte = to_pte(program)
    x = torch.rand(8, 3)
    (tensor,) = run_program(pte, [(raw(x),)]).results()
    assert (tensor.sizes, tensor.data) == ((8, 3), raw(x * 0.5))
    run_program(pte, [(raw(x[:4]),)]).check_error(ErrorKind.INPUT, "has 48 bytes, expected 96")


def test_numbers_among_the_inputs_must_be_those_of_the_program(run_program: RunProgram) -> None:
    x = torch.rand(3, 4)
    exported = export(lambda x, axis, flag, nothing, scale: x.unsqueeze(axis), (x, 1, True, None, 2.5), run=False)
    right = list(exported.input_set)
    assert right[1:3] == [np.int64(1).tobytes(), b"\1"]
    right[3] = b""
    (tensor,) = run_program(exported.pte, [right]).results()
    assert (tensor.sizes, tensor.data) == ((3, 1, 4), raw(x))
    for position, wrong in ((1, np.int64(0)), (2, np.bool_(False)), (4, np.float64(2.25))):
        other = [*right[:position], wrong.tobytes(), *right[position + 1 :]]
        run_program(exported.pte, [right, other]).check_error(
            ErrorKind.INPUT, f"input {position} of set 1 is not the value the program was exported with"
        )
    conversation = run_program(exported.pte, [[*right[:2], b"four", *right[3:]]])
    conversation.check_error(ErrorKind.INPUT, "input 2 of set 0 has 4 bytes, expected 1 (1 of BOOL)")


def make_unsupported(program: Any) -> None:
    """Make a program that asks for as many unsupported things as one program can."""
    from executorch.exir import schema

    method = plan(program)
    method.operators += [schema.Operator("my::first", "out"), schema.Operator("my::second", "")]
    processed = schema.BackendDelegateDataReference(schema.DataLocation.INLINE, 0)
    method.delegates.append(schema.BackendDelegate("XnnpackBackend", processed, []))
    odd = planned(program)[0]
    external = schema.TensorDataLocation.EXTERNAL
    for name, value in (
        ("scalar_type", schema.ScalarType.QINT8),
        ("shape_dynamism", schema.TensorShapeDynamism.DYNAMIC_UNBOUND),
        ("extra_tensor_info", schema.ExtraTensorInfo(fully_qualified_name="layer.weight", location=external)),
        ("extra_tensor_info", schema.ExtraTensorInfo(device_type=schema.DeviceType.CUDA)),
    ):
        method.values.append(schema.EValue(schema.Tensor(**{**vars(odd), name: value})))
    method.non_const_buffer_device = [schema.NonConstBufferDevice(1, schema.DeviceType.CUDA, 0)]


REASONS = (
    "this firmware lacks operator my::first.out, operator my::second, delegate XnnpackBackend",
    "is a tensor of type QINT8 (12)",
    "is a tensor without an upper bound on its shape",
    "is a tensor whose data is in another file, as 'layer.weight'",
    "is a tensor in the memory of a CUDA",
    "planned buffer 1 is in the memory of a CUDA",
)


def test_all_missing_things_are_reported_at_once(
    run_program: RunProgram, run_runner: RunFiles, exported: Exported, tmp_path: Any
) -> None:
    asking = edited(exported.pte, make_unsupported)
    conversation = run_program(asking, [exported.input_set])
    text = conversation.check_error(ErrorKind.UNSUPPORTED)
    assert [reason for reason in REASONS if reason not in text] == []
    assert not conversation.all(FrameType.LOADED)

    ended = run_runner(write_files(tmp_path, asking, exported.input_set))
    assert ended.status == 1
    (line,) = ended.errors()
    assert line == f"E [executorch:unsupported] {text}"


def test_outputs_that_are_not_tensors_have_no_file(run_runner: RunFiles, exported: Exported, tmp_path: Any) -> None:
    from executorch.exir import schema

    def give_number(program: Any) -> None:
        plan(program).values.append(schema.EValue(schema.Int(7)))
        plan(program).outputs.insert(0, len(plan(program).values) - 1)

    ended = run_runner(write_files(tmp_path, edited(exported.pte, give_number), exported.input_set))
    assert (ended.status, ended.errors()) == (0, [])
    assert "Output[0]: Not Tensor" in ended.lines
    assert not (tmp_path / "out-0.bin").exists()
    assert (tmp_path / "out-1.bin").read_bytes() == raw(exported.outputs[0])
