"""Python code of a graph, generated when it is needed.

Whenever a graph changes hands, torch.fx writes it out as Python, compiles that, and makes it the `forward` of the
module that holds the graph (torch 2.13, torch/fx/graph_module.py, `GraphModule.recompile`). A lowering makes some four
hundred such modules and calls a dozen of them, because passes interpret graphs.

torch has a kind of module that generates on demand (`torch.fx._lazy_graph_module`), which its compiler uses, but the
passes name the ordinary kind. So here the ordinary kind waits until its `forward` or its code is read. Two things
differ from torch. If a graph is changed, its module is not recompiled, and the module is called for the first time
after that, then the change is in effect. And a module cannot be pickled before its code is there. A lowering does
neither.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Recompile = Callable[[Any], Any]

_FORWARD = "forward"
_CODE = ("_code", "_lineno_map", "_prologue_start")
"""The attributes that `recompile` sets in the module, beside `forward` in its class."""


class _OnDemand:
    """An attribute of a graph module's class that is not generated yet. Each module has a class of its own."""

    def __init__(self, module: torch.fx.GraphModule, name: str, generate: Recompile) -> None:
        self._module = weakref.ref(module)
        self._name = name
        self._generate = generate

    def __get__(self, instance: Any, owner: Any) -> Any:
        module = self._module()
        assert module is not None, "the class outlived its module"
        for name in (_FORWARD, *_CODE):
            if isinstance(vars(owner).get(name), _OnDemand):
                delattr(owner, name)
        self._generate(module)
        return getattr(module if instance is not None else owner, self._name)


def generated_on_demand(by_torch: Recompile) -> Recompile:
    """torch's method `recompile`, put off until the code is needed. That may be after the patch was taken away."""
    from torch.fx.graph import _PyTreeCodeGen

    def recompile(module: torch.fx.GraphModule) -> None:
        codegen = module.graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            module._in_spec, module._out_spec = codegen.pytree_info.in_spec, codegen.pytree_info.out_spec
        own: Any = type(module)
        for name in _CODE:
            vars(module).pop(name, None)
        for name in (_FORWARD, *_CODE):
            setattr(own, name, _OnDemand(module, name, by_torch))
        module._recompile_submodules()

    return recompile
