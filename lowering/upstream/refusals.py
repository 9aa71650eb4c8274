"""What no program can have, and is refused by name before ExecuTorch writes it: empty tensors, NaN, complex numbers,
powers of integers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ethos_hil.base.errors import CompileError
from ethos_hil.lowering.upstream.export import graphs, operator_calls
from ethos_hil.lowering.upstream.names.operators import unwrap

if TYPE_CHECKING:
    import torch

_CONVERSIONS = "quantize_per"
"""Part of the names of the operators that convert between floats and integers."""
Locate = Callable[["torch.fx.Node"], str | None]
"""Gives the user's line that a node comes from."""


def _at(locate: Locate, *nodes: torch.fx.Node) -> str:
    """ " at net.py:12": the line of the first node that has one; "" where none has."""
    line = next(filter(None, map(locate, nodes)), None)
    return f" at {line}" if line else ""


def refuse_empty(module: torch.fx.GraphModule, locate: Locate) -> None:
    """Check that no tensor of a partition's graph has a dimension of 0.

    Args:
        module: the graph.
        locate: names the user's lines.

    Raises:
        CompileError: one has. The message names the operation and the line.
    """
    for part in graphs(module):
        for node in part.graph.nodes:
            if node.op in ("placeholder", "call_function"):
                shape = empty_shape(node)
                if shape is not None:
                    raise _refusal(node, shape, locate)


def empty_shape(node: torch.fx.Node) -> tuple[int, ...] | None:
    """The shape of the tensor that a node gives if it has no elements, else None.

    A node with several tensors has none: those that are used have a node of their own behind it. A batch norm gives two
    statistics of shape [0] that nothing uses.
    """
    shape = getattr(node.meta.get("val"), "shape", None)
    return tuple(shape) if shape is not None and 0 in shape else None


def _refusal(node: torch.fx.Node, shape: tuple[int, ...], locate: Locate) -> CompileError:
    node = node.all_input_nodes[0] if node.target is operator.getitem else node
    reader = _computing(node)
    what = "an input" if reader is not node else "the result"
    place = _at(locate, reader, *reader.all_input_nodes, *reader.users)
    return CompileError(
        f"{what} of {unwrap(reader.target)}{place} has no elements: its shape is [{', '.join(map(str, shape))}], "
        "and TOSA has no dimension of 0",
        hint="give it at least one element, or leave the operation to the CPU (Method.leave)",
    )


def _computing(node: torch.fx.Node) -> torch.fx.Node:
    """The node, or the first behind it that computes: inputs and conversions have no operation of the model."""
    while (node.op == "placeholder" or _CONVERSIONS in str(node.target)) and node.users:
        node = next(iter(node.users))
    return node


_DFT = (
    "write a Fourier transform as a convolution or a matrix product with cosines and sines, and keep real and "
    "imaginary parts as channels (docs/on-the-cpu.md)"
)


def refuse_integer_powers(module: torch.fx.GraphModule, locate: Locate) -> None:
    """Check that nothing in a program is a power of integers: ExecuTorch's kernel (1.5.1) stops the program there.

    Raises:
        CompileError: something is. The message names the operator and the line.
    """
    for node in operator_calls(module):
        dtype = getattr(node.meta.get("val"), "dtype", None)
        if dtype is not None and not dtype.is_floating_point and ".pow." in str(unwrap(node.target)):
            raise CompileError(
                f"{unwrap(node.target)}{_at(locate, node)} is a power of integers "
                f"({str(dtype).removeprefix('torch.')}), which ExecuTorch has no kernel for",
                hint="compute it with floats: torch.pow(x.float(), y.float()).to(x.dtype); a power that is a number is "
                "written as products",
            )


def refuse_integer_loops(module: torch.fx.GraphModule, locate: Locate) -> None:
    """Check that no loop of a float program carries integers.

    Upstream (executorch 1.5.1) makes int32 of some that are int64, and floats of others, and then fails on the loop.

    Raises:
        CompileError: one does. The message names the line.
    """
    for node in operator_calls(module):
        if str(node.target) != "while_loop":
            continue
        carried: Sequence[torch.fx.Node] = node.args[2]  # type: ignore[assignment]
        for value in carried:
            dtype = value.meta["val"].dtype
            if not dtype.is_floating_point:
                raise CompileError(
                    f"a loop{_at(locate, node, *node.users)} carries {str(dtype).removeprefix('torch.')}, and "
                    "ExecuTorch lowers loops over floats alone",
                    hint="write a loop of a fixed number of turns in Python (for _ in range(3): ...), or let the "
                    "condition depend on what is computed (x.sum() < 30), for an Ethos-U85",
                )


def refuse_complex(module: torch.fx.GraphModule, locate: Locate) -> None:
    """Check that no operator of a program that is ready to be written gives complex numbers.

    Args:
        module: the program's graph.
        locate: names the user's lines.

    Raises:
        CompileError: one does. The message names the operation and the line that make them of real ones.
    """
    for node in operator_calls(module):
        if _is_complex(node) and not any(map(_is_complex, node.all_input_nodes)):
            raise CompileError(
                f"{unwrap(node.target)}{_at(locate, node)} makes complex numbers, which a program cannot have",
                hint=_DFT,
            )


def _is_complex(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    return bool(getattr(getattr(value, "dtype", None), "is_complex", False))


def refuse_nan(module: torch.fx.GraphModule, inputs: Sequence[torch.Tensor], locate: Locate) -> None:
    """Look for the first NaN that a module computes: no scale has room for it.

    Args:
        module: in float; it may have observers.
        inputs: of its graph.
        locate: names the user's lines.

    Raises:
        CompileError: there is one. The message names the operation and the line, the weight or the input.
    """
    import torch

    class Search(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> object:
            value = super().run_node(n)
            if isinstance(value, torch.Tensor) and value.is_floating_point() and value.isnan().any():
                raise _refusal_of_nan(n, value, locate)
            return value

    # It would say which node it was at, in the error.
    search = Search(module)
    search.extra_traceback = False
    search.run(*inputs)


def _refusal_of_nan(node: torch.fx.Node, value: torch.Tensor, locate: Locate) -> CompileError:
    amount = f"NaN ({int(value.isnan().sum()):,} of {value.numel():,} elements), and integers have none"
    if node.op == "placeholder":
        return CompileError(f"the calibration input {node.name} has {amount}", hint="calibrate with numbers only")
    if node.op == "get_attr":
        return CompileError(f"the weight {node.target} has {amount}", hint="look for what its training came to")
    return CompileError(
        f"{unwrap(node.target)}{_at(locate, node)} makes {amount}, of the calibration inputs",
        hint="calibrate with inputs that it has answers for, or keep its input from others, as with clamp",
    )
