"""Lowering with ExecuTorch's public functions alone, and the one that calls Vela: what any version of it has.

It is taken where the table of patches does not know the installed ExecuTorch (`ethos_hil.lowering.upstream.patches`).
The artifact has the program, the TOSA program of each delegate, Vela's database, inputs, PyTorch's answers and how far
the program's may be from these: a run is verified bit for bit. It has no origins of NPU operations, no repairs of
defects, and no reasons why an operator is on the CPU.

Names of ExecuTorch 1.4.1, 1.5.1 and its main branch of August 2026.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ethos_hil.base.errors import CompileError, UsageError
from ethos_hil.base.options import CPU_FLOAT
from ethos_hil.lowering.artifact import Delegate, LoweredMethod
from ethos_hil.lowering.conditions.process import tell
from ethos_hil.lowering.formats.pte_reader import Program
from ethos_hil.lowering.formats.tosa import TosaGraph, without_locations
from ethos_hil.lowering.map.delegate_map import Partition, build_map
from ethos_hil.lowering.model.torch_model import Method, TorchModel
from ethos_hil.lowering.program.placement import Placement
from ethos_hil.lowering.upstream.cpu_calls import delegated_operators
from ethos_hil.lowering.upstream.dropped_roundings import unrounded_answers
from ethos_hil.lowering.upstream.patches.patch import replace_attribute
from ethos_hil.lowering.upstream.pytorch_answers import evaluate
from ethos_hil.lowering.vela.compiler import DEBUG_FLAGS, VelaOutput, with_ini
from ethos_hil.lowering.vela.ini import VelaIni

if TYPE_CHECKING:
    import torch

BARE = (
    "lowered bare, with ExecuTorch's public functions alone: no repairs of known defects, no origins of NPU operations "
    "and no reasons for what is on the CPU; bounds count the roundings of versions that are known"
)


def require_plain(model: TorchModel, leave: tuple[str, ...], cpu: str, *, whole: bool) -> Method:
    """Return the method of a model that can be lowered bare.

    Raises:
        UsageError: more is asked than that.
    """
    asked = {
        f"methods ({', '.join(model.methods)})": len(model.methods) > 1,
        "--whole": whole,
        "--cpu": cpu != CPU_FLOAT,
        "--leave": bool(leave) or any(method.leave for method in model.methods.values()),
        "int16": any(method.int16 for method in model.methods.values()),
        f"state ({', '.join(model.default.changed)})": any(method.changed for method in model.methods.values()),
        "on_cpu": any(method.on_cpu for method in model.methods.values()),
    }
    for what, is_asked in asked.items():
        if is_asked:
            raise UsageError(
                f"{model.label}: {what} needs patches of ExecuTorch, which do not fit the version that lowers it",
                hint="leave it out, or lower with a version that `ethos-hil doctor` calls full",
            )
    return model.default


def lower_bare(
    name: str, method: Method, spec: Any, ini: VelaIni | None, scheme: str | None
) -> tuple[bytes, LoweredMethod, tuple[np.ndarray, ...]]:
    """Lower a method, and return the .pte with it, and the answer without the roundings that the program drops.

    Args:
        name: the method's.
        method: the method.
        spec: upstream's compile spec.
        ini: Vela's configuration file; None where the TOSA program is the end product.
        scheme: bits of activations and weights; None for a program in float.
    """
    import torch
    from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower

    exported = torch.export.export(method.fresh, method.example_inputs, strict=False)
    floating = evaluate(exported.module(check_guards=False), method.example_inputs)
    quantised: tuple[np.ndarray, ...] = ()
    unrounded: tuple[np.ndarray, ...] = ()
    if scheme is not None:
        tell("quantising")
        exported, quantised, unrounded = _quantise(method, exported, spec, scheme, vela=ini is not None)
    compiled: dict[bytes, VelaOutput] = {}
    tell("lowering")
    with torch.no_grad(), _watching(ini, compiled):
        edge = to_edge_transform_and_lower({name: exported}, partitioner=[_partitioner(spec, vela=ini is not None)])
        delegated = delegated_operators(edge.exported_program(name))
        pte = bytes(edge.to_executorch(ExecutorchBackendConfig(extract_delegate_segments=False)).buffer)
    plan = Program.parse(pte, name).plan(name)
    delegates = []
    for at, call in plan.delegate_calls:
        data = plan.delegates[call.delegate].data
        if ini is None:
            delegates.append(Delegate(call.delegate, at, data, b""))
            continue
        if data not in compiled:
            raise CompileError(f"delegate {call.delegate} was not compiled by ExecuTorch's vela_compile")
        delegates.append(_delegate(call.delegate, at, compiled[data], sum(len(done.npu_ops) for done in delegates)))
    lowered = LoweredMethod(
        name,
        delegates=tuple(delegates),
        example_inputs=tuple(tensor.detach().contiguous().numpy() for tensor in method.example_inputs),
        floating=floating,
        quantised=quantised,
        input_names=tuple(map(str, exported.graph_signature.user_inputs)),
        scheme=scheme,
        delegated=delegated,
        placement=Placement.of_plan(plan),
    )
    return pte, lowered, unrounded


def _delegate(index: int, instruction: int, output: VelaOutput, first_id: int) -> Delegate:
    rows = build_map(
        TosaGraph.regions(output.tosa),
        output.database,
        output.parsed.command_stream,
        Partition({}, {}, {}),
        first_id=first_id,
        total_cycles=int(float(output.summary["cycles_total"])),
    )
    return Delegate(index, instruction, without_locations(output.tosa), output.blob, rows, output.summary)


def _quantise(
    method: Method, exported: torch.export.ExportedProgram, spec: Any, scheme: str, *, vela: bool
) -> tuple[torch.export.ExportedProgram, tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    import torch
    from executorch.backends.arm.quantizer import (
        EthosUQuantizer,
        TOSAQuantizer,
        get_symmetric_a16w8_quantization_config,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    if method.quantizer is not None:
        quantiser = method.quantizer(spec)
    else:
        quantiser = (EthosUQuantizer if vela else TOSAQuantizer)(spec)
        wide = scheme == "a16w8"
        quantiser.set_global(get_symmetric_a16w8_quantization_config() if wide else get_symmetric_quantization_config())
    with torch.no_grad():
        prepared = prepare_pt2e(exported.module(check_guards=False), quantiser)
        for inputs in method.calibration_inputs:
            prepared(*(tensor.clone() for tensor in inputs))
        converted = convert_pt2e(prepared)
    answers = evaluate(converted, method.example_inputs)
    unrounded = unrounded_answers(converted, method.example_inputs)
    return torch.export.export(converted, method.example_inputs, strict=False), answers, unrounded


def _partitioner(spec: Any, *, vela: bool) -> Any:
    from executorch.backends.arm.ethosu import EthosUPartitioner
    from executorch.backends.arm.tosa.partitioner import TOSAPartitioner

    return EthosUPartitioner(spec) if vela else TOSAPartitioner(spec)


def _watching(ini: VelaIni | None, compiled: dict[bytes, VelaOutput]) -> Any:
    """While inside, what Vela makes is kept by its blob. The function takes a program, arguments, and more by name."""
    if ini is None:
        return nullcontext()
    from executorch.backends.arm.ethosu import backend

    own: Callable[..., Any] = backend.vela_compile

    def watched(tosa: Any, arguments: list[str], *more: Any, **named: Any) -> Any:
        tell("compiling with Vela")
        with tempfile.TemporaryDirectory(prefix="ethos-hil-") as folder:
            words = with_ini(list(arguments), ini, Path(folder))
            settings: Mapping[str, Any] = {**named, "intermediate_path": folder}
            answer = own(tosa, [*words, *DEBUG_FLAGS], *more, **settings)
            blob = bytes(getattr(answer, "processed_bytes", answer))  # an object since 1.5
            compiled[blob] = VelaOutput.read(blob, Path(folder))
        return answer

    return replace_attribute(backend, "vela_compile", watched)
