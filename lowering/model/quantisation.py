"""How a method is quantised: by which quantiser, and what the artifact says of it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ethos_hil.base.errors import UsageError
from ethos_hil.base.options import Scheme
from ethos_hil.lowering.model import Method
from ethos_hil.lowering.model.torch_model import TorchModel
from ethos_hil.lowering.program.program_file import ProgramFile
from ethos_hil.lowering.upstream.names.operators import is_quantised

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


_MOST = 12
"""How many names an error lists."""


def modules_in(graphs: Iterable[torch.fx.GraphModule]) -> tuple[str, ...]:
    """Return the names of the modules whose calls are in graphs, in the order of their first call."""
    names: dict[str, None] = {}
    for graph in graphs:
        for node in graph.graph.nodes:
            for path, _ in (node.meta.get("nn_module_stack") or {}).values():
                names.setdefault(path, None)
    return tuple(path for path in names if path)


def chosen_modules(wanted: Sequence[str], known: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the modules that the user names, and those below a name that only contains others, as a list does.

    Args:
        wanted: their names, as the user gave them.
        known: the names of the model's modules.
        where: the model, in an error.

    Raises:
        UsageError: one is not; the error lists names that are alike.
    """
    chosen: dict[str, None] = {}
    for name in wanted:
        below = [path for path in known if path == name or path.startswith(f"{name}.")]
        if below:
            chosen |= dict.fromkeys([name] if name in known else below)
            continue
        close = difflib.get_close_matches(name, known, n=3)
        listed = f"did you mean {' or '.join(close)}? " if close else ""
        more = ", ..." if len(known) > _MOST else ""
        names = f"its modules: {', '.join(known[:_MOST])}{more}" if known else "it has no modules of its own"
        raise UsageError(f"{where} calls no module {name!r}", hint=f"{listed}{names}")
    return tuple(chosen)


def quantisation_notes(model: TorchModel | ProgramFile, method: str, scheme: str | None) -> tuple[str, ...]:
    """Return sentences about the quantisation of a method, where it is not what anybody expects.

    Args:
        model: what was lowered.
        method: the method's name.
        scheme: how it was quantised (`Artifact.scheme`).
    """
    if scheme is None or not isinstance(model, TorchModel):
        return ()
    mine = model.methods[method]
    if is_quantised(mine.module):
        return ("it is quantised already: its own scales are kept",)
    notes = () if scheme == "a8w8" else (f"quantised with {scheme}",)
    sets = mine.calibration_inputs
    own = all(map(_same, sets[0], mine.example_inputs))
    if (mine.changed or not mine.steady) and own and all(values is sets[0] for values in sets):
        return (
            *notes,
            f"calibrated on {len(sets)} calls with its one example, from the state that it starts with: larger values "
            "of other calls are clipped; --calibrate gives it a sequence",
        )
    if len(sets) != 1:
        return notes
    what = "its one example" if own else "one input set"
    return (*notes, f"calibrated on {what}: larger values of other inputs are clipped; --calibrate gives it more")


def _same(first: torch.Tensor, other: torch.Tensor) -> bool:
    from ethos_hil.lowering.user_code.module_changes import same_tensor

    return first is other or same_tensor(first, other)
