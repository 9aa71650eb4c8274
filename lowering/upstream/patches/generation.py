"""Python code of a graph, generated when it is wanted.

Whenever a graph changes hands, torch.fx writes it out as Python, compiles that and makes it the `forward` of the module
that holds the graph (torch 2.13, torch/fx/graph_module.py, `GraphModule.recompile`). A lowering passes a graph through
some four hundred such modules, and calls a dozen of them: passes interpret graphs.

torch has a kind of module that generates on demand (`torch.fx._lazy_graph_module`), which its compiler uses; but the
passes name the ordinary kind. So here that does it, until its `forward` or its code is looked at. Should somebody
change a graph without recompiling its module and then call that, the change is in it here; torch has it without. Nor
can a module be pickled whose code is not there yet. Neither happens in a lowering.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.upstream.patches.replaced import replaced

if TYPE_CHECKING:
    import torch

Generate = Callable[[Any], Any]

_FORWARD = "forward"
_CODE = ("_code", "_lineno_map", "_prologue_start")
"""What `recompile` sets besides, in the module."""


class _OnDemand:
    """An attribute of a graph module's class that has yet to be generated. Each module has a class to itself."""

    def __init__(self, module: torch.fx.GraphModule, name: str, generate: Generate) -> None:
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


@contextmanager
def generated_on_demand() -> Iterator[None]:
    """While inside, graph modules that are made or recompiled generate their code when it is wanted, maybe later."""
    from torch.fx import GraphModule
    from torch.fx.graph import _PyTreeCodeGen

    by_torch = GraphModule.recompile

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

    with replaced(GraphModule, by_torch.__name__, recompile):
        yield
