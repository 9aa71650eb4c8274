"""From a module to an exported program; the graphs of such a program, and the names of its outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ethos_hil.base.errors import raise_if_interrupted
from ethos_hil.lowering.formats.pte_model import LONGEST, number_names
from ethos_hil.lowering.upstream.names.trees import key_of

if TYPE_CHECKING:
    import torch

_BRANCHES = "when making fake tensor call"


def export(module: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> torch.export.ExportedProgram:
    """Exports a module with torch.export; in strict mode if it has branches or loops.

    torch 2.13's default mode fails on torch.cond if a branch uses layers of the module (TorchRuntimeError "when making
    fake tensor call"). It exports a branch within a branch to a program that ExecuTorch 1.4.1 cannot lower
    (RuntimeError "Attempting to use FunctionalTensor on its own"). Upstream's tests export such modules in strict mode.
    If strict mode fails as well, the error is that of the default mode, which names the user's line.

    Raises:
        Exception: whatever torch raises.
    """
    return _with_plain_outputs(_export(module, inputs))


def _export(module: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> torch.export.ExportedProgram:
    import torch

    try:
        with _assigned_buffers_written(module):
            exported = torch.export.export(module, tuple(inputs))
        if len(graphs(exported.graph_module)) == 1:
            return exported
    except Exception as error:
        raise_if_interrupted(error)
        if _BRANCHES not in str(error):
            raise
        try:
            return torch.export.export(module, tuple(inputs), strict=True)
        except Exception as second:
            raise_if_interrupted(second)
            raise error from None
    return torch.export.export(module, tuple(inputs), strict=True)


@contextmanager
def _assigned_buffers_written(module: torch.nn.Module) -> Iterator[None]:
    """While a module is exported, a buffer of a part of it that is assigned a new tensor is written at the end.

    torch.export (2.13, default mode) does so for buffers of the outermost module alone; of its parts it loses the new
    value, without a word (functorch, register_buffer_assignment_hook). A tensor of another shape or dtype cannot be
    written there, and is lost as before.
    """
    kept: list[tuple[dict[str, Any], str, torch.Tensor]] = []

    def before(*_: Any) -> None:
        inner = (part for part in module.modules() if part is not module)
        kept[:] = [(part._buffers, name, old) for part in inner for name, old in part.named_buffers(recurse=False)]

    def after(*_: Any) -> None:
        for buffers, name, old in kept:
            new = buffers[name]
            if new is not old and new is not None and (new.shape, new.dtype) == (old.shape, old.dtype):
                buffers[name] = old.copy_(new)

    hooks = (module.register_forward_pre_hook(before, prepend=True), module.register_forward_hook(after))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _with_plain_outputs(exported: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Makes tuples of what ExecuTorch cannot write: what torch.topk and max return, named tuples, dataclasses.

    It fails with NotImplementedError, "No registered serialization name" (executorch 1.5.1, torch 2.13).
    """
    signature = exported.module_call_graph[0].signature
    if signature is not None:
        signature.out_spec = _plain(signature.out_spec)
    return exported


def _plain(structure: Any) -> Any:
    """A structure (torch.utils._pytree.TreeSpec) with dictionaries, or tuples, in place of what cannot be written."""
    from torch.utils._pytree import LeafSpec, TreeSpec, tree_flatten_with_path, tree_unflatten, treespec_dumps

    if structure.is_leaf():
        return structure
    children = structure.children()
    plain = list(map(_plain, children))
    shallow = TreeSpec(structure.type, structure.context, [LeafSpec() for _ in children])
    try:
        treespec_dumps(shallow)
    except NotImplementedError:
        paths, _ = tree_flatten_with_path(tree_unflatten(range(len(children)), shallow))
        keys = [key_of(path[0]) for path, _ in paths]
        named = all(isinstance(key, str) for key in keys)
        return TreeSpec(dict, keys, plain) if named else TreeSpec(tuple, None, plain)
    same = all(new is old for new, old in zip(plain, children, strict=True))
    return structure if same else TreeSpec(structure.type, structure.context, plain)


def graphs(module: torch.nn.Module) -> list[torch.fx.GraphModule]:
    """The module of an exported program, and those of its branches and loops, outer ones first."""
    import torch

    return [part for part in module.modules() if isinstance(part, torch.fx.GraphModule)]


def operator_calls(*modules: torch.nn.Module) -> list[torch.fx.Node]:
    """The calls of operators in modules of exported programs, those of branches and loops included."""
    nodes = (node for module in modules for part in graphs(module) for node in part.graph.nodes)
    return [node for node in nodes if node.op == "call_function"]


def output_names(structure: Any) -> tuple[str, ...]:
    """Return the names of a model's outputs, in the order of the program's.

    An output below a dictionary, or below a tuple with named fields, has the keys on its way, joined by dots
    ("head.boxes", "masks.0"). Every other output has its number among all outputs ("output 1"). If two outputs would
    have the same name, or one would have none or a very long one, all have their numbers.

    Args:
        structure: the structure of what forward returns (torch.utils._pytree.TreeSpec).
    """
    from torch.utils._pytree import tree_flatten_with_path, tree_unflatten

    count = structure.num_leaves
    paths, _ = tree_flatten_with_path(tree_unflatten(range(count), structure))
    names = tuple(_name(path, number) for number, (path, _) in enumerate(paths))
    plain = number_names(count)
    usable = all(0 < len(name) <= LONGEST for name in names)
    return names if usable and len(names) == len(set(names)) == count else plain


def _name(path: Sequence[Any], number: int) -> str:
    from torch.utils._pytree import SequenceKey

    if all(isinstance(key, SequenceKey) for key in path):
        return f"output {number}"
    return ".".join(str(key_of(key)) for key in path)


def lowered_parts(program: torch.export.ExportedProgram) -> list[torch.fx.GraphModule]:
    """The graphs of a program that were handed to a backend."""
    from executorch.exir.lowered_backend_module import LoweredBackendModule

    return [
        module.original_module.graph_module
        for module in program.graph_module.modules()
        if isinstance(module, LoweredBackendModule)
    ]
