"""Tensors created from no input: they become constants of the program that uses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ethos_hil.suites.declare.case import Operator, case, f32


def plus(name: str, *arguments: Any, **options: Any) -> Callable[..., Any]:
    """Return a function that adds to its input the result of torch's function `name` for the arguments."""

    def forward(x: Any) -> Any:
        import torch

        return x + getattr(torch, name)(*arguments, **options)

    return forward


def plus_like(name: str, *arguments: Any) -> Callable[..., Any]:
    """Return a function that adds to its input the result of torch's function `name` for the input and the
    arguments.
    """

    def forward(x: Any) -> Any:
        import torch

        return x + getattr(torch, name)(x, *arguments)

    return forward


arange = Operator(
    "arange",
    aten=("arange.start_step",),
    aten_int=("add.Tensor",),
    fp=("ADD",),
    int=("ADD",),
    cases=(case("positions", plus("arange", 7.0), f32(3, 7)),),
)

full = Operator(
    "full",
    aten=("full.default",),
    fp=("ADD", "CONST"),
    int=("ADD", "CONST"),
    cases=(
        case("value", plus("full", (3, 7), 0.25), f32(3, 7)),
        case("ones", plus("ones", 7), f32(3, 7)),
        case("zeros", plus("zeros", 3, 1), f32(3, 7)),
    ),
)

full_like = Operator(
    "full_like",
    aten=("full.default",),  # of the other tensor it takes the shape alone (lowering/upstream/rewritten/constants.py)
    fp=("ADD", "CONST"),
    int=("ADD", "CONST"),
    cases=(case("ones", plus_like("ones_like"), f32(3, 7)), case("zeros", plus_like("zeros_like"), f32(1, 4, 5, 3))),
)

eye = Operator(
    "eye",
    aten=("eye.default",),
    aten_int=("add.Tensor",),
    fp=("ADD",),
    int=("ADD",),
    cases=(case("added", plus("eye", 5), f32(5, 5)),),
)

linspace = Operator(
    "linspace",
    aten=("linspace.default",),
    aten_int=("add.Tensor",),
    fp=("ADD",),
    int=("ADD",),
    cases=(case("added", plus("linspace", -1, 1, 7), f32(3, 7)),),
)
