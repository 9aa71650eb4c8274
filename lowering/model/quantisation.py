"""How a method is quantised: by which quantiser, and what the artifact says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ethos_hil.base.errors import UsageError
from ethos_hil.base.question import Scheme
from ethos_hil.lowering.model import Method
from ethos_hil.lowering.model.module_names import chosen_modules, modules_in

if TYPE_CHECKING:
    import torch

AS_GIVEN = "as given"
"""`Artifact.scheme` of a model that the user has quantised."""


def quantizer_of(name: str, method: Method, scheme: Scheme, spec: Any, floating: torch.fx.GraphModule) -> Any:
    """Return the quantiser of a method.

    Args:
        name: the method's name, for an error.
        method: the method.
        scheme: bits of activations and weights.
        spec: upstream's compile spec.
        floating: the method's float graph.

    Raises:
        UsageError: a module of `method.int16` is not called, or options contradict one another.
    """
    from ethos_hil.lowering.upstream.export import graphs
    from ethos_hil.lowering.upstream.quantizers import upstream_quantizer, users_quantizer

    if method.quantizer is not None:
        if method.int16 or scheme != "a8w8":
            what = f"int16 for {', '.join(method.int16)}" if method.int16 else f"the scheme {scheme}"
            raise UsageError(
                f"method {name}: the quantizer decides all bits, so {what} says nothing",
                hint="leave one of them out; upstream's quantisers have set_module_name",
            )
        return users_quantizer(method.quantizer, spec)
    if method.int16 and scheme == "a16w8":
        raise UsageError(
            f"method {name}: a16w8 has 16 bits in every module, so int16 for {', '.join(method.int16)} says nothing",
            hint="leave one of them out",
        )
    int16 = chosen_modules(method.int16, modules_in(graphs(floating)), f"method {name}")
    return upstream_quantizer(spec, scheme, int16, floating=floating)


def require_unquantised_options(name: str, method: Method, scheme: Scheme) -> None:
    """Check that nothing is asked for that a quantised model has decided already.

    Raises:
        UsageError: it is.
    """
    wide = f"the scheme {scheme}" if scheme != "a8w8" else None
    given = "a quantizer" if method.quantizer is not None else "int16" if method.int16 else wide
    if given is not None:
        raise UsageError(f"method {name} is quantised already, so {given} says nothing", hint="give the float model")


def scheme_text(method: Method, scheme: Scheme) -> str:
    """Return how a method is quantised, in words."""
    from ethos_hil.lowering.upstream.quantizers import function_name

    if method.quantizer is not None:
        return f"quantizer {function_name(method.quantizer)}"
    return f"{scheme}, a16w8 in {', '.join(method.int16)}" if method.int16 else scheme
