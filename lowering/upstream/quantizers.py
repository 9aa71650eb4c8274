"""The quantisers that ExecuTorch offers for its Arm backend, set as the user asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ethos_hil.base.errors import EthosHilError, UsageError, raise_if_interrupted
from ethos_hil.base.question import Scheme
from ethos_hil.lowering.upstream.export import graphs
from ethos_hil.lowering.upstream.grouped import GroupedFinder, within
from ethos_hil.lowering.user_code.error_text import summary, user_line

if TYPE_CHECKING:
    import torch

_RETURNS = (
    "it takes upstream's compile spec and returns a quantiser, such as "
    "EthosUQuantizer(spec).set_global(get_symmetric_quantization_config())"
)


def upstream_quantizer(
    compile_spec: Any, scheme: Scheme, int16: Sequence[str] = (), *, floating: torch.fx.GraphModule | None = None
) -> Any:
    """Upstream's quantiser for a compile spec: weights in 8 bits, symmetric, per channel.

    The weights of some transposed convolutions are quantised per tensor (`ethos_hil.lowering.upstream.grouped`).

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
    """A configuration for upstream's quantiser, of the program's inputs and outputs: wide beside wide modules.

    Args:
        narrow, wide: upstream's configurations.
        names: the wide modules.
    """

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
    try:
        made = function(compile_spec)
    except EthosHilError:
        raise
    except (Exception, SystemExit) as error:
        raise_if_interrupted(error)
        raise UsageError(f"the quantizer {name} raised {summary(error)}{user_line(error)}", hint=_RETURNS) from error
    if not isinstance(made, Quantizer):
        raise UsageError(f"the quantizer {name} returned a {type(made).__name__}", hint=_RETURNS)
    return made


def function_name(function: Callable[..., Any]) -> str:
    """The name of a function, for people."""
    return getattr(function, "__name__", type(function).__name__)
