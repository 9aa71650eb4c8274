"""Handing programs to a backend: the parts that a partitioner picks, or whole programs by the backend's id.

A program that is handed over by the backend's id leaves nothing to the CPU, not even the conversion of inputs and
outputs. A quantised method then takes and returns integers. Upstream's QuantizeInputs and QuantizeOutputs write their
meaning into the program, as methods that return constants: input0_scale, input0_zp, input0_quant_min, input0_quant_max,
input0_dtype (a ScalarType), output0_scale, and so on. In a program of several methods, the method's name comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import CompileError, raise_if_interrupted
from ethos_hil.lowering.upstream.export import graphs, operator_calls
from ethos_hil.lowering.upstream.names.operators import unwrap
from ethos_hil.lowering.upstream.patches.patch import apply
from ethos_hil.lowering.upstream.patches.table import PARTS
from ethos_hil.lowering.upstream.reasons.reason import Circumstances, find_reasons
from ethos_hil.lowering.upstream.reasons.rule import Reason
from ethos_hil.lowering.user_code.user_function import Sources

if TYPE_CHECKING:
    import torch

_KEYS = ("scale", "zp", "quant_min", "quant_max", "dtype")


def edge_config(*, preserve: Sequence[Any] = ()) -> Any:
    """ExecuTorch's EdgeCompileConfig for programs that hold other operators than its core ones, as ours do.

    Args:
        preserve: the operators that are not decomposed.
    """
    from executorch.exir import EdgeCompileConfig

    return EdgeCompileConfig(_check_ir_validity=False, preserve_ops=list(preserve))


def by_partitioner(
    programs: Mapping[str, torch.export.ExportedProgram],
    partitioners: Mapping[str, Any],
    *,
    preserve: Sequence[Any] = (),
    etrecord: bool = False,
) -> Any:
    """An EdgeProgramManager of the methods, each with the delegates that its partitioner picks.

    Args:
        programs: the methods.
        partitioners: by method; a method without one has no delegates.
        preserve: the operators that are not decomposed, beside those that partitioners keep.
        etrecord: whether the manager keeps what upstream's ETRecord is written from. The program is the same.
    """
    from executorch.exir import to_edge_transform_and_lower

    with apply(PARTS):
        return to_edge_transform_and_lower(
            dict(programs),
            partitioner={name: [_keeping(partitioner, preserve)] for name, partitioner in partitioners.items()},
            compile_config=edge_config(preserve=preserve),
            generate_etrecord=etrecord,
        )


def _keeping(partitioner: Any, operators: Sequence[Any]) -> Any:
    """The partitioner, which from now on has these operators kept whole, too: upstream asks nothing else."""
    ask = partitioner.ops_to_not_decompose

    def ask_for_more(program: torch.export.ExportedProgram) -> Any:
        kept, is_kept = ask(program)
        more = [operator for operator in operators if operator not in kept]
        return [*kept, *more], lambda node: node.target in operators or is_kept is None or is_kept(node)

    if operators:
        partitioner.ops_to_not_decompose = ask_for_more
    return partitioner


@dataclass(frozen=True)
class Border:
    """How a method's integers stand for numbers.

    Attributes:
        inputs, outputs: of each, the arguments of upstream's quantise operator (scale, zero point, lowest and highest
            integer, dtype), or None where it is not quantised.
    """

    inputs: tuple[tuple[Any, ...] | None, ...]
    outputs: tuple[tuple[Any, ...] | None, ...]

    @property
    def floats(self) -> bool:
        """Whether no input and no output is quantised."""
        return not any((*self.inputs, *self.outputs))

    def of_inputs(self, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Float inputs as the integers that the method takes."""
        return tuple(map(_integers, arrays, self.inputs))

    def of_outputs(self, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Float outputs of the quantised module, multiples of the scale, as the integers that the method returns."""
        return tuple(map(_integers, arrays, self.outputs))


def by_backend_id(
    programs: Mapping[str, torch.export.ExportedProgram],
    partitioners: Mapping[str, Any],
    inputs: Mapping[str, Sequence[torch.Tensor]],
    enter: Callable[[str], None],
    sources: Sources,
    circumstances: Mapping[str, Circumstances],
) -> tuple[Any, dict[str, Border]]:
    """An EdgeProgramManager of the methods, those that have a partitioner with all of them in one delegate.

    Args:
        programs: the methods.
        partitioners: they pick nothing here. They know the backend, its compile specs, and the operators that it needs
            undecomposed.
        inputs: example inputs of the methods.
        enter: called with the name of each method before it is delegated.
        sources: names the line of an operator that cannot be delegated.
        circumstances: by method with a partitioner, what the reason depends on.

    Returns:
        The manager, and the meaning of each method's integers.

    Raises:
        CompileError: a float input or output is not quantised, or an operator cannot be delegated.
    """
    import torch
    from executorch.exir import to_edge
    from executorch.exir.backend.backend_api import to_backend

    functional = {name: program.run_decompositions({}) for name, program in programs.items()}
    for name in partitioners:
        if functional[name].graph_signature.buffers_to_mutate:
            raise CompileError(
                f"{name} keeps state, and cannot be delegated whole: a delegate writes no buffer of the program",
                hint="leave out --whole",
            )
    kept = [op for name, partitioner in partitioners.items() for op in _keep(functional[name], partitioner)]
    edge = to_edge(functional, compile_config=edge_config(preserve=list(dict.fromkeys(kept))))
    takers = {name: _Integers(name, edge.exported_program(name)) for name in partitioners}
    edge = edge.transform({name: list(taker.passes) for name, taker in takers.items()})
    lowered: dict[str, torch.export.ExportedProgram] = {}
    borders: dict[str, Border] = {}
    constants: dict[str, Any] = {}
    for name, program in programs.items():
        if name not in partitioners:
            lowered[name] = program
            continue
        borders[name] = border = takers[name].border
        constants |= _constants(name if len(programs) > 1 else None, border)
        enter(name)
        spec = partitioners[name].delegation_spec
        try:
            delegate = to_backend(spec.backend_id, edge.exported_program(name), spec.compile_specs)
        except Exception as error:
            raise_if_interrupted(error)
            found = refusal(edge.exported_program(name), partitioners[name], sources, circumstances[name])
            if found is None:
                raise
            place, (why, remedy) = found
            raise CompileError(
                f"{name} cannot be delegated whole: {place}: {why}",
                hint=f"{remedy}; or leave out --whole: a partitioner leaves that to the CPU",
            ) from error
        integers = border.of_inputs([tensor.numpy() for tensor in inputs[name]])
        lowered[name] = torch.export.export(delegate, tuple(map(torch.from_numpy, integers)))
    return to_edge(lowered, compile_config=edge_config(), constant_methods=constants or None), borders


def _keep(program: torch.export.ExportedProgram, partitioner: Any) -> list[Any]:
    """The operators of a program, branches included, that its backend needs undecomposed."""
    operators, wanted = partitioner.ops_to_not_decompose(program)
    there = {op: [node for node in operator_calls(program.graph_module) if node.target == op] for op in operators}
    return [op for op, matches in there.items() if matches and (wanted is None or all(map(wanted, matches)))]


class _Integers:
    """Moves the quantisation of inputs and outputs out of a method, with upstream's passes. Raises CompileError."""

    def __init__(self, name: str, program: torch.export.ExportedProgram) -> None:
        from executorch.exir.passes.quantize_io_pass import QuantizeInputs, QuantizeOutputs

        quantised = any("quantized_decomposed" in str(node.target) for node in program.graph.nodes)
        placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
        inputs = [placeholders[value] for value in program.graph_signature.user_inputs]
        outputs = list(program.graph.output_node().args[0])
        self._counts = len(inputs), len(outputs)
        sides = {"input": inputs, "output": outputs}
        floats = {
            side: [at for at, node in enumerate(nodes) if quantised and _is_float(node)]
            for side, nodes in sides.items()
        }
        for side, operator in (("input", "quantize_per_tensor"), ("output", "dequantize_per_tensor")):
            for at in floats[side]:
                node = sides[side][at]
                users = list(node.users) if side == "input" else [node]
                if [operator in str(user.target) for user in users] != [True]:
                    names = ", ".join(str(getattr(user, "name", user)) for user in users) or "nothing"
                    raise CompileError(
                        f"{side} {at} of {name} has no one quantisation, which could be left to the caller: {names}",
                        hint="leave out --whole",
                    )
        self._inputs = QuantizeInputs(None, floats["input"], name, program)
        self._outputs = QuantizeOutputs(None, floats["output"], name, program)
        self.passes = (self._inputs, self._outputs)

    @property
    def border(self) -> Border:
        """The meaning of the method's integers. Read it after the passes have run."""
        inputs, outputs = self._inputs.quant_args, self._outputs.dequant_args
        return Border(
            tuple(_first_arguments(inputs.get(at)) for at in range(self._counts[0])),
            tuple(_first_arguments(outputs.get(at)) for at in range(self._counts[1])),
        )


def _first_arguments(arguments: Sequence[Any] | None) -> tuple[Any, ...] | None:
    return None if arguments is None else tuple(arguments)[: len(_KEYS)]


def _is_float(node: Any) -> bool:
    import torch

    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _constants(prefix: str | None, border: Border) -> dict[str, Any]:
    from executorch.exir.passes.quantize_io_pass import get_config_method_name
    from executorch.exir.tensor import scalar_type_enum

    constants: dict[str, Any] = {}
    for kind, sides in (("input", border.inputs), ("output", border.outputs)):
        for number, stated in enumerate(sides):
            for key, value in zip(_KEYS, stated or (), strict=False):
                known = scalar_type_enum(value) if key == "dtype" else value
                constants[get_config_method_name(prefix, kind, number, key)] = known
    return constants


def _integers(array: np.ndarray, stated: tuple[Any, ...] | None) -> np.ndarray:
    if stated is None:
        return array
    scale, zero_point, low, high, dtype = stated
    steps = np.rint(array.astype(np.float64) / scale) + zero_point
    return np.clip(steps, low, high).astype(str(dtype).removeprefix("torch."))


def refusal(
    program: torch.export.ExportedProgram, partitioner: Any, sources: Sources, circumstances: Circumstances
) -> tuple[str, Reason] | None:
    """The first operator of a program that `partitioner` would leave to the CPU, with its line, and why; or None.

    A backend that is given such an operator fails in one of its passes, with a message about what the pass made of it.
    The checks that a partitioner makes before it picks an operator name the operator itself.

    Args:
        program: an edge program that has no delegates yet.
        partitioner: upstream's, for TOSA or an Ethos-U.
        sources: names the operator's line.
        circumstances: what the reason depends on beside the operator.
    """
    from executorch.backends.arm.operator_support.tosa_supported_operators import tosa_support_factory
    from executorch.exir.backend.utils import WhyNoPartitionReporter

    reasons: dict[Any, str] = {}

    class RefusalReporter(WhyNoPartitionReporter):
        def report_reject(self, node: torch.fx.Node, reason: str) -> None:
            reasons.setdefault(node, reason)

    support = tosa_support_factory(partitioner.tosa_spec, program, RefusalReporter(), partitioner.additional_checks)
    for part in graphs(program.graph_module):
        modules = dict(part.named_modules())
        for node in part.graph.nodes:
            if node.op == "call_function" and not support.is_node_supported(modules, node) and node in reasons:
                operator = unwrap(node.target)
                line = sources.line_of(node)
                reason = find_reasons({node: reasons[node]}, circumstances)[node]
                return f"{operator}{f' ({line})' if line else ''}", reason
    return None
