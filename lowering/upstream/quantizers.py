"""From a float module to a quantised exported program, with ExecuTorch's Arm quantisers, set as the user asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ethos_hil.base.errors import UsageError
from ethos_hil.base.options import Scheme
from ethos_hil.lowering.conditions.process import tell_within
from ethos_hil.lowering.upstream.export import export, graphs
from ethos_hil.lowering.upstream.graph_repairs import keep_ranks, rewrite_graphs
from ethos_hil.lowering.upstream.patches.patch import apply
from ethos_hil.lowering.upstream.patches.table import ORIGINS
from ethos_hil.lowering.upstream.refusals import refuse_nan
from ethos_hil.lowering.upstream.state import LiftedState, write_directly
from ethos_hil.lowering.user_code.user_function import Sources, call_user

if TYPE_CHECKING:
    import torch


def quantise(
    floating: torch.fx.GraphModule,
    calibration_inputs: Sequence[tuple[torch.Tensor, ...]],
    quantiser: Any,
    locate: Callable[[torch.fx.Node], str | None] = lambda node: None,
) -> tuple[torch.fx.GraphModule, torch.export.ExportedProgram]:
    """Quantises a float program.

    Args:
        floating: the module of a float exported program, without guards. A guard is a call_module node, which the Arm
            passes reject.
        calibration_inputs: sets of inputs whose ranges decide the scales. At least one; if the model branches, at least
            one for each way through it.
        quantiser: torchao's Quantizer, which says how (`ethos_hil.lowering.upstream.quantizers`).
        locate: names the line of a node.

    Returns:
        The quantised module, which runs in eager torch, and its exported program, for lowering.

    Raises:
        ToolError: a patch that keeps origins does not fit the installed ExecuTorch.
        UsageError: the program has branches, and the quantiser is not one of upstream's Arm backend.
        CompileError: what it computes of the calibration inputs has no range, as it is NaN.
    """
    import torch
    from executorch.exir.graph_module import get_cond_while_submodules
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    with torch.no_grad(), apply(ORIGINS):
        # A model may write to its inputs, and to buffers: its state. The first set of inputs and the program meet the
        # state that it starts with, each other set what the one before it left.
        sets = [tuple(tensor.clone() for tensor in inputs) for inputs in calibration_inputs]
        branches = bool(get_cond_while_submodules(floating))
        lifted = None if branches else LiftedState.of(floating, sets[0])
        rewrite_graphs(floating if lifted is None else lifted.module, keep_ranks)
        if branches:
            # PT2E's own functions do not quantise branches and bodies of loops. Upstream's tests call this.
            if not hasattr(quantiser, "_quantize_with_submodules"):
                raise UsageError(
                    f"a {type(quantiser).__name__} cannot quantise a model with branches or loops",
                    hint="let the quantizer be an EthosUQuantizer",
                )
            converted = quantiser._quantize_with_submodules(floating, sets)
        else:
            prepared = prepare_pt2e(floating if lifted is None else lifted.module, quantiser)
            _leave_casts(prepared)
            if lifted is not None:
                write_directly(prepared)
            state = () if lifted is None else lifted.first_values()
            for number, inputs in enumerate(sets):
                tell_within(f"calibrating with input {number + 1} of {len(sets)}")
                try:
                    prepared(*inputs, *state)
                except RuntimeError:
                    refuse_nan(prepared, (*inputs, *state), locate)
                    raise
            tell_within("choosing the ranges")
            converted = convert_pt2e(prepared)
            if lifted is not None:
                lifted.lower(converted)
    return converted, export(converted, calibration_inputs[0])


def _leave_casts(prepared: torch.fx.GraphModule) -> None:
    """Take away the observers between a cast and floats of other types than float32, as inputs and outputs may have.

    ExecuTorch's Arm quantiser (1.5.1) puts them there, and what they become takes float32 alone.
    """
    import torch

    casts = (torch.ops.aten.to.dtype, torch.ops.aten._to_copy.default)
    for node in prepared.graph.find_nodes(op="call_module"):
        observed: Any = node.args[0]
        dtype = getattr(observed.meta.get("val"), "dtype", torch.float32)
        cast = any(near.target in casts for near in (observed, *node.users))
        if cast and dtype.is_floating_point and dtype != torch.float32:
            node.replace_all_uses_with(observed)
            prepared.graph.erase_node(node)
    prepared.recompile()


# Transposed convolutions with groups whose weights upstream cannot quantise per channel.
#
# Upstream (executorch 1.4.1, backends/arm/quantizer/quantization_annotator.py) gives such weights a scale for each
# input channel, and derives the bias's scales, one for each output channel, from them. Where these are not as many,
# quantising fails. One scale for all weights is what works; upstream's passes then split the groups, and the NPU
# computes them.

_GROUPS = 6
"""Number of the argument in aten's signature."""


class GroupedFinder:
    """Finds these convolutions, for upstream's quantiser.

    Args:
        modules: only in these, and in what they contain; by default everywhere.
    """

    def __init__(self, modules: frozenset[str] | None = None) -> None:
        self._modules = modules

    def find_nodes(self, model: torch.fx.GraphModule) -> Iterator[Any]:
        """The nodes of a graph."""
        for node in model.graph.nodes:
            if _is_grouped(node) and (self._modules is None or within(node, self._modules)):
                yield node


def within(node: Any, modules: frozenset[str]) -> bool:
    """Whether a node of the float program belongs to one of the modules, by their paths."""
    return any(path in modules for path, _ in (node.meta.get("nn_module_stack") or {}).values())


def grouped_notes(floating: torch.fx.GraphModule, sources: Sources) -> tuple[str, ...]:
    """A note that names the lines of these convolutions; none if there are none."""
    nodes = [node for part in graphs(floating) for node in GroupedFinder().find_nodes(part)]
    if not nodes:
        return ()
    lines = dict.fromkeys(sources.line_of(node) or node.name for node in nodes)
    return (
        f"the weights of transposed convolutions with groups have one scale (at {', '.join(lines)}): ExecuTorch's "
        "quantiser gives them a scale for each input channel, and fails on the bias",
    )


def _is_grouped(node: Any) -> bool:
    if str(node.target) != "aten.conv_transpose2d.input" or len(node.args) <= _GROUPS or node.args[2] is None:
        return False
    groups, weights = node.args[_GROUPS], node.args[1].meta.get("val")
    return groups != 1 and weights is not None and weights.shape[0] != weights.shape[1] * groups


_RETURNS = (
    "it takes upstream's compile spec and returns a quantiser, such as "
    "EthosUQuantizer(spec).set_global(get_symmetric_quantization_config())"
)


def upstream_quantizer(
    compile_spec: Any, scheme: Scheme, int16: Sequence[str] = (), *, floating: torch.fx.GraphModule | None = None
) -> Any:
    """Upstream's quantiser for a compile spec: weights in 8 bits, symmetric, per channel.

    The weights of some transposed convolutions are quantised per tensor (`ethos_hil.lowering.upstream.quantizers`).

    Args:
        compile_spec: upstream's; it chooses the quantiser by its class.
        scheme: "a16w8" for activations in 16 bits, symmetric.
        int16: names of modules with such activations, whatever the scheme.
        floating: the program to be quantised, where it is known.
    """
    from executorch.backends.arm import quantizer as arm
    from executorch.backends.arm.util._factory import create_quantizer

    quantiser = create_quantizer(compile_spec)
    wide = scheme == "a16w8"
    quantiser.set_global(
        arm.get_symmetric_a16w8_quantization_config() if wide else arm.get_symmetric_quantization_config()
    )
    if int16:
        _widen(quantiser, arm, int16)
    if floating is not None and any(list(GroupedFinder().find_nodes(part)) for part in graphs(floating)):
        _share_scales(quantiser, arm, int16, wide=wide)
    return quantiser


def _share_scales(quantiser: Any, arm: Any, int16: Sequence[str], *, wide: bool) -> None:
    """Gives each transposed convolution that upstream cannot quantise per channel one scale for all its weights."""
    shared = arm.get_symmetric_a16w8_quantization_config if wide else arm.get_symmetric_quantization_config
    quantiser.set_node_finder(shared(is_per_channel=False), GroupedFinder())
    if int16:  # what is set later comes first
        config = arm.get_symmetric_a16w8_quantization_config(is_per_channel=False)
        quantiser.set_node_finder(config, GroupedFinder(frozenset(int16)))


def _widen(quantiser: Any, arm: Any, names: Sequence[str]) -> None:
    """Gives modules activations of 16 bits, and with them the program's inputs and outputs that only they use or make.

    Upstream's quantiser treats inputs and outputs as parts of no module, so that they would be rounded to 8 bits.
    """
    from executorch.backends.cortex_m.quantizer.node_finders import InputNodeFinder, OutputNodeFinder

    narrow, wide = arm.get_symmetric_quantization_config(), arm.get_symmetric_a16w8_quantization_config()
    border = _BorderConfig(narrow, wide, frozenset(names))
    quantiser.set_node_finder(border, InputNodeFinder())
    quantiser.set_node_finder(border, OutputNodeFinder())
    for name in names:
        quantiser.set_module_name(name, wide)


class _BorderConfig:
    """Upstream's configuration of the program's inputs and outputs: wide beside the modules in `names`."""

    def __init__(self, narrow: Any, wide: Any, names: frozenset[str]) -> None:
        self._narrow = narrow
        self._wide = wide
        self._names = names

    def get_input_act_qspec(self, node: Any = None, input_node: Any = None) -> Any:
        """How one of the program's outputs is quantised: by what makes it."""
        wide = input_node is not None and self._within(input_node)
        return (self._wide if wide else self._narrow).get_input_act_qspec(node, input_node)

    def get_output_act_qspec(self, node: Any = None) -> Any:
        """How one of the program's inputs is quantised: by what uses it."""
        wide = node is not None and bool(node.users) and all(map(self._within, node.users))
        return (self._wide if wide else self._narrow).get_output_act_qspec(node)

    def _within(self, node: Any) -> bool:
        return within(node, self._names)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._narrow, name)


def users_quantizer(function: Callable[[Any], Any], compile_spec: Any) -> Any:
    """The quantiser that a user's function makes.

    Raises:
        UsageError: the function raises, or returns something else.
    """
    from torchao.quantization.pt2e.quantizer import Quantizer

    name = function_name(function)
    quantizer = call_user(lambda: function(compile_spec), f"the quantizer {name}", _RETURNS)
    if not isinstance(quantizer, Quantizer):
        raise UsageError(f"the quantizer {name} returned a {type(quantizer).__name__}", hint=_RETURNS)
    return quantizer


def function_name(function: Callable[..., Any]) -> str:
    """The name of a function, for people."""
    return getattr(function, "__name__", type(function).__name__)
