"""ExecuTorch's Cortex-M backend for what is not on the NPU: it stays quantised, and runs in kernels of int8.

The backend has a quantiser and passes. Beside an NPU, a method is quantised twice: as for the NPU alone, which shows
what upstream's partitioner leaves; and then with the Cortex-M backend's quantiser for that. The passes come after the
partitioner. Their operators of images take [N, H, W, C], so they put int8 transposes around them ("explicit layout"
upstream). Only a model whose example inputs are in channels_last keeps its layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ethos_hil.base.errors import CompileError, UsageError
from ethos_hil.base.options import CPU_ALONE, CPU_BESIDE, CPU_FLOAT, LoweringOptions
from ethos_hil.lowering.upstream.export import graphs, operator_calls
from ethos_hil.lowering.upstream.names.operators import unwrap
from ethos_hil.lowering.user_code.user_function import Sources

if TYPE_CHECKING:
    import torch

IN_FLOAT = (
    "what the kernels of ExecuTorch's Cortex-M backend refuse, or CMSIS-NN computes wrongly, stays in float: at {}"
)
_FEW_CHANNELS = 16
_TAKE_HARDSWISH = ("aten.linear.default", "aten.conv2d.default", "aten.conv1d.default")
ONE_SCALE = (
    "linear layers on the CPU have one scale for all weights: ExecuTorch's Cortex-M backend fails on one for each "
    "output"
)


def require_suitable(options: LoweringOptions, particular: Sequence[str], what: str, *, whole: bool) -> None:
    """Check that nothing is asked for beside the Cortex-M backend that it cannot have.

    Args:
        options: what is asked.
        particular: the names of the methods that leave something to the CPU, or have 16 bits somewhere.
        what: the model's name, for an error.
        whole: whether all of it is to be delegated.

    Raises:
        UsageError: it is.
    """
    flag = f"--cpu {options.cpu}"
    if options.cpu not in (CPU_BESIDE, CPU_ALONE):
        return
    if whole:
        raise UsageError(f"--whole leaves nothing to the CPU, so {flag} says nothing", hint="leave out one of them")
    if options.cpu == CPU_BESIDE:
        if options.scheme != "a8w8":
            raise UsageError(
                f"{flag} has 8 bits, so the scheme {options.scheme} contradicts it", hint="leave out one of them"
            )
        return
    given = options.flags(("leave", "int16", "scheme", "memory_mode", "system_config", "vela_ini", "vela_flags"))
    if given or particular:
        raise UsageError(
            f"{flag} puts all of {what} on the CPU in 8 bits, so "
            f"{given[0] if given else f'what method {particular[0]} leaves there, or has in 16 bits,'} says nothing",
            hint=f"leave it out, or use --cpu {CPU_BESIDE}",
        )


def keeps_layout(inputs: Sequence[torch.Tensor]) -> bool:
    """Return whether a model with such inputs computes images in channels_last already."""
    import torch

    images = [tensor for tensor in inputs if tensor.dim() == 4]
    return any(not tensor.is_contiguous() for tensor in images) and all(
        tensor.is_contiguous(memory_format=torch.channels_last) for tensor in images
    )


def quantizer_alone(inputs: Sequence[torch.Tensor]) -> Any:
    """Return upstream's quantiser for a method of which nothing is on an NPU."""
    from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer

    quantiser = CortexMQuantizer(use_explicit_layout=not keeps_layout(inputs))
    among, _ = _classes()
    *parts, _ = quantiser.quantizers
    for part in parts:
        part.node_finder = among(part.node_finder, lambda node: not has_no_kernel(node))
    return quantiser


def add_quantizer(quantiser: Any, left: frozenset[str]) -> Any:
    """Return upstream's quantiser for an NPU, which now quantises what the NPU leaves for the Cortex-M backend.

    Args:
        quantiser: an EthosUQuantizer (executorch 1.5.1: of quantisers in turn).
        left: the identifiers (`ethos_hil.lowering.upstream.ethosu.identifier`) of the calls that it leaves.
    """
    from executorch.backends.cortex_m.quantizer.node_finders import GlobalNodeFinder
    from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer

    from ethos_hil.lowering.upstream.ethosu import identifier

    def is_left(node: torch.fx.Node) -> bool:
        return node.op == "call_function" and identifier(node) in left

    among, beside = _classes()
    # The last one shares scales between operators that only move values; the NPU's quantiser has one of its own.
    *parts, _ = CortexMQuantizer(use_explicit_layout=True).quantizers
    for part in reversed(parts):  # what is added later comes first
        quantiser.add_quantizer(beside(part, among(part.node_finder, is_left)))
    floats = among(GlobalNodeFinder(), lambda node: is_left(node) and has_no_kernel(node))
    return quantiser.set_node_finder(None, floats)


@cache
def _classes() -> tuple[Any, Any]:
    # Defined late: importing the base class takes seconds.
    from executorch.backends.arm.constants import DISALLOW_TFA_META_KEY
    from executorch.backends.arm.quantizer.arm_quantizer_utils import PatternQuantizer

    class Among:
        """A node finder that finds what another one does, as far as it is chosen."""

        def __init__(self, finder: Any, is_chosen: Callable[[torch.fx.Node], bool]) -> None:
            self._finder, self.is_chosen = finder, is_chosen

        def find_nodes(self, model: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
            return filter(self.is_chosen, self._finder.find_nodes(model))

    class BesideNpu(PatternQuantizer):
        """One of the parts of upstream's quantiser, for some of the nodes."""

        def __init__(self, part: Any, finder: Among) -> None:
            super().__init__(part.quantization_config, finder, part.pattern_matcher)

        def annotate(self, model: torch.fx.GraphModule) -> Any:
            result = super().annotate(model)
            for node in filter(self.node_finder.is_chosen, model.graph.nodes):
                node.meta[DISALLOW_TFA_META_KEY] = True  # the NPU's passes would take it apart
            return result

    return Among, BesideNpu


def has_no_kernel(node: torch.fx.Node) -> bool:
    """Return whether upstream's quantiser (executorch 1.5.1) takes a call of a float graph that its kernels refuse, or
    that CMSIS-NN computes wrongly (firmware/runtime/kernels/cortex_m_convolution.cc). Such a call stays in float.
    """
    operator = str(node.target)
    if operator in ("aten.softmax.int", "aten._softmax.default"):
        rank = node.meta["val"].dim()
        dimension = node.args[1]
        return not isinstance(dimension, int) or dimension % rank != rank - 1
    if operator in ("aten.hardswish.default", "aten.hardswish_.default"):  # which becomes a part of what is before it
        before: Any = node.args[0]
        if str(before.target).startswith("aten.clamp.") and len(before.users) == 1:  # upstream puts one there
            before = before.args[0]
        return str(before.target) not in _TAKE_HARDSWISH or len(before.users) > 1
    if operator != "aten.conv_transpose2d.input":
        return False
    channels, _, *kernel = node.args[1].meta["val"].shape  # type: ignore[union-attr]
    arguments: Any = node.args
    stride, padding = (arguments[at] if len(arguments) > at else default for at, default in ((3, (1, 1)), (4, (0, 0))))
    if channels > _FEW_CHANNELS and max(stride) <= 2:
        return any(pad >= size for pad, size in zip(padding, kernel, strict=True))
    return kernel[0] - stride[0] < padding[0] or padding[0] % stride[0] != 0


def calls_left(program: torch.export.ExportedProgram, partitioner: Any) -> frozenset[str]:
    """Return the identifiers of the calls that a partitioner leaves to the CPU.

    Args:
        program: a quantised method.
        partitioner: upstream's, with the checks and reasons of `ethos_hil.lowering.upstream.cpu_calls`.
    """
    from executorch.exir.program._program import _gen_edge_manager_for_partitioners

    from ethos_hil.lowering.upstream.cpu_calls import TAG, is_computation
    from ethos_hil.lowering.upstream.delegation import edge_config
    from ethos_hil.lowering.upstream.ethosu import identifier
    from ethos_hil.lowering.upstream.patches.patch import apply
    from ethos_hil.lowering.upstream.patches.table import PARTS

    with apply(PARTS):
        edge = _gen_edge_manager_for_partitioners({"forward": [partitioner]}, {"forward": program}, edge_config(), None)
        partitioned = edge.exported_program("forward")
        partitioner.partition(partitioned)
    computed = [node for node in operator_calls(partitioned.graph_module) if is_computation(str(unwrap(node.target)))]
    taken = {identifier(node) for node in computed if TAG in node.meta}
    return frozenset({identifier(node) for node in computed} - taken)


def preserved(module: torch.fx.GraphModule, cpu: str, left: frozenset[str] | None = None) -> tuple[Any, ...]:
    """Return the operators of a method that the passes need undecomposed.

    Args:
        module: the method's float graph, or its quantised one.
        cpu: the option.
        left: the identifiers of the calls that are not on an NPU; None where they are not known.
    """
    import torch

    if cpu == CPU_FLOAT:
        return ()
    from executorch.backends.cortex_m.edge_compile_config import cortex_m_edge_compile_config

    from ethos_hil.lowering.upstream.ethosu import identifier

    calls = [node for part in graphs(module) for node in part.graph.nodes if node.op == "call_function"]
    if cpu == CPU_BESIDE and left is None:  # the partitioner keeps these whole as well
        return tuple({node.target for node in calls} & {torch.ops.aten.linear.default})
    there = {node.target for node in calls if cpu == CPU_ALONE or (left is not None and identifier(node) in left)}
    return tuple(operator for operator in cortex_m_edge_compile_config().preserve_ops if operator in there)


def notes(module: torch.fx.GraphModule, left: frozenset[str] | None, sources: Sources) -> tuple[str, ...]:
    """Return what is to be told of the quantisation of the calls that are left to the CPU; None for all calls."""
    import torch

    from ethos_hil.lowering.upstream.ethosu import identifier

    mine = [node for node in operator_calls(module) if left is None or identifier(node) in left]
    shared = left is not None and any(node.target is torch.ops.aten.linear.default for node in mine)
    floats = sorted({sources.line_of(node) or node.name for node in filter(has_no_kernel, mine)})
    return (*((ONE_SCALE,) if shared else ()), *((IN_FLOAT.format(", ".join(floats)),) if floats else ()))


def lower_rest(edge: Any, method: str, *, keeps_layout: bool) -> None:
    """Give a method, which has its delegates, the backend's operators for what is quantised on the CPU.

    Args:
        edge: upstream's manager of the programs.
        method: the method's name.
        keeps_layout: whether its images are in channels_last.
    """
    from executorch.backends.cortex_m.passes.activation_fusion_pass import ActivationFusionPass
    from executorch.backends.cortex_m.passes.aten_to_cortex_m_pass import AtenToCortexMPass
    from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager
    from executorch.backends.cortex_m.passes.explicit_layout_pass import ValidateCortexMExplicitLayoutPass

    lists = CortexMPassManager.legacy_pass_list, CortexMPassManager.explicit_layout_pass_list
    # The check refuses a program with a convolution in float, which has a kernel all the same.
    getitems, folding, *others = (
        step for step in lists[not keeps_layout] if step is not ValidateCortexMExplicitLayoutPass
    )
    replacing = [_careful_pass() if step is AtenToCortexMPass else step for step in others]
    passes = [getitems, folding, ActivationFusionPass, _linear_pass(), *replacing, _whole_pass()]
    edge._edge_programs[method] = CortexMPassManager(edge.exported_program(method), passes=passes).transform()


@cache
def _whole_pass() -> Any:
    """Return a pass that takes apart what was kept whole for the backend, stayed in float, and has no kernel."""
    import torch
    from executorch.exir.dialects._ops import ops
    from executorch.exir.pass_base import ExportPass

    aten = ops.edge.aten
    gates = {aten.hardswish.default: True, aten.silu.default: True, aten.hardsigmoid.default: False}

    class WholePass(ExportPass):
        def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
            def call(operator: Any, *values: Any) -> Any:
                return super(WholePass, self).call_operator(operator, values, {}, meta)

            if op not in gates or args[0].to_tensor().dtype is not torch.float32:
                return super().call_operator(op, args, kwargs, meta)
            x = args[0]
            if op is aten.silu.default:
                gate = call(aten.sigmoid.default, x)
            else:
                gate = call(aten.div.Scalar, call(aten.clamp.default, call(aten.add.Scalar, x, 3.0), 0.0, 6.0), 6.0)
            return call(aten.mul.Tensor, x, gate) if gates[op] else gate

    return WholePass


@cache
def _careful_pass() -> Any:
    """Return upstream's pass that replaces operators, but for those that its kernels refuse or compute wrongly.

    They take int8 that is contiguous (executorch 1.5.1, backends/cortex_m/ops/op_minimum.cpp, op_transpose.cpp), and
    CMSIS-NN swaps two dimensions whatever their order. ExecuTorch's portable kernels take what is left.
    """
    import torch
    from executorch.backends.cortex_m.passes.aten_to_cortex_m_pass import AtenToCortexMPass
    from executorch.exir.dialects._ops import ops

    aten = ops.edge.aten

    class CarefulPass(AtenToCortexMPass):
        pass

    def only_plain(replace: Any) -> Any:
        def replaced(node: torch.fx.Node, step: Any) -> Any:
            values = [value.meta["val"] for value in node.all_input_nodes]
            plain = all(value.dtype is torch.int8 and value.is_contiguous() for value in values)
            stays = node.target is aten.permute_copy.default and list(node.args[1]) == [0, 1]  # type: ignore[arg-type]
            return replace(node, step) if plain and not stays else None

        return replaced

    for operator, replace in AtenToCortexMPass._DIALECT_SUBSTITUTIONS.items():
        careful = operator in (aten.minimum.default, aten.maximum.default, aten.permute_copy.default)
        CarefulPass.register_dialect_substitution(operator)(only_plain(replace) if careful else replace)
    return CarefulPass


@cache
def _linear_pass() -> Any:
    """Return a pass that replaces linear layers, once activations are a part of them.

    Upstream's (executorch 1.5.1) comes after passes that compute each operator's type again, and take the sum of int8
    and a bias of int32 for int32; a matrix product behind it then fails. It also fails on weights of several scales.
    """
    from executorch.backends.cortex_m.passes.aten_to_cortex_m_pass import AtenToCortexMPass
    from executorch.backends.transforms.aten_to_dialect_pass import AtenToDialectPass
    from executorch.exir.dialects._ops import ops

    linear = ops.edge.aten.linear.default
    replace = AtenToCortexMPass._DIALECT_SUBSTITUTIONS[linear]

    class LinearPass(AtenToCortexMPass):
        def call(self, graph_module: torch.fx.GraphModule) -> Any:
            return AtenToDialectPass.call(self, graph_module)

    @LinearPass.register_dialect_substitution(linear)
    def replaced(node: torch.fx.Node, step: Any) -> Any:
        if any(user.target is ops.edge.aten.hardswish.default for user in node.users):
            return None  # a pass of upstream's makes it a part of this one
        weights = node.meta.get("input_qparams", {}).get(1)
        if isinstance(getattr(weights, "scale", None), list):
            raise CompileError(
                f"{node.name} is left to the CPU with a scale for each output, for which ExecuTorch's Cortex-M backend "
                "has no linear layer",
                hint="quantise it per tensor, or leave out --cpu cortex-m",
            )
        return replace(node, step)

    return LinearPass
