"""What is replaced in torch and torchao while a model is lowered."""

from __future__ import annotations

import functools
import weakref
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from ctypes import c_float
from itertools import accumulate, repeat
from operator import getitem
from typing import TYPE_CHECKING, Any

from ethos_hil.base.dataclasses import dataclass

if TYPE_CHECKING:
    import torch


# torch's composite operators, collected once.
#
# torch 2.13 goes through all registered operators to find the composite ones it may keep (torch/_export/utils.py,
# `_collect_all_valid_cia_ops`). It does so whenever torch.export decomposes a program, and whenever a table of
# decompositions is read: five times a lowering, with the same 557 operators each time. torch cannot keep the result,
# because operators may be registered at any time. Here it is kept as long as the registry says the same.

_collections: dict[Any, set[Any]] = {}
"""The operators of the last collection, by what the registry said then."""


def collected_once(collect: Callable[[], set[Any]]) -> Callable[[], set[Any]]:
    """torch's function `collect`, called again only after operators have been registered. Each caller gets a copy."""
    import torch

    def remember() -> set[Any]:
        registry = (
            tuple(torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")),
            len(torch._C._dispatch_get_all_op_names()),
            tuple(torch.ops._dir),
        )
        if registry not in _collections:
            answer = collect()
            _collections.clear()
            _collections[registry] = answer
        return set(_collections[registry])

    return remember


# Programs that torch traces again though nothing of them is to be decomposed.
#
# ExecuTorch 1.5.1 (exir/program/_program.py, `_gen_edge_manager_for_partitioners`) decomposes a program three times: by
# an empty table, by a table without the operators that the backend wants, and by a table of all. torch 2.13 traces the
# whole program each time (torch/export/exported_program.py, `run_decompositions`). If the program is a result of such a
# trace, and the table has none of its operators, what comes out is what went in, and the program itself is returned.
# That is so for a program of one graph, without state that changes, symbolic sizes and constants in the graph: of any
# other it is left to torch.

_traced: weakref.WeakKeyDictionary[Any, list[tuple[Any, ...]]] = weakref.WeakKeyDictionary()
"""The nodes of each program that was traced, with their arguments, as they were then."""


def decomposed_once(by_torch: Callable[..., Any]) -> Callable[..., Any]:
    """torch's method `run_decompositions`, which traces a program only where that can change it."""

    def run_decompositions(
        self: torch.export.ExportedProgram, decomp_table: Collection[Any] | None = None, *rest: Any, **named: Any
    ) -> torch.export.ExportedProgram:
        if decomp_table is not None and not rest and not named and _plain(self) and _traced.get(self) == _state(self):
            targets = {node.target for node in self.graph.nodes if node.op == "call_function"}
            if not any(target in decomp_table for target in targets):
                _note_trace(self)
                return self
        result: torch.export.ExportedProgram = by_torch(self, decomp_table, *rest, **named)
        if _plain(result):
            _traced[result] = _state(result)
        return result

    return run_decompositions


def _note_trace(program: torch.export.ExportedProgram) -> None:
    """Write into each node where it comes from, as a trace does: TOSA's locations quote it."""
    from torch.fx.traceback import NodeSource, NodeSourceAction

    for node in program.graph.nodes:
        if node.op == "call_function":
            for stage in ("ExportedProgram.module()", "Interpreter_PropagateUnbackedSymInts"):
                node.meta["from_node"] = [NodeSource(node, stage, NodeSourceAction.CREATE)]


def _state(program: torch.export.ExportedProgram) -> list[tuple[Any, ...]]:
    return [(node, node.op, node.args, node.kwargs) for node in program.graph.nodes]


def _plain(program: torch.export.ExportedProgram) -> bool:
    """Return whether tracing a program can do no more than decompose its operators."""
    import torch

    signature = program.graph_signature
    if signature.buffers_to_mutate or signature.user_inputs_to_mutate or program.range_constraints:
        return False
    for node in program.graph.nodes:
        if node.op not in ("placeholder", "call_function", "output"):
            return False
        if node.op != "call_function" or node.target is getitem:
            continue
        if not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.is_mutable:
            return False
    return True


# Where a node of a graph comes from, shared by the nodes that come from there.
#
# torch 2.13 notes in each node what it was made from, and what that was made from. For each new node it copies the
# whole history (torch/fx/traceback.py, `NodeSource`), which grows with every pass. Nothing changes an entry once it is
# made.


def shared_history(_: None) -> Callable[[Any, dict[int, Any]], Any]:
    """A `__deepcopy__` for NodeSource, which has none of its own: the copy of an entry is the entry."""

    return lambda entry, memo: entry


# Python code of a graph, generated when it is needed.
#
# Whenever a graph changes hands, torch.fx writes it out as Python, compiles that, and makes it the `forward` of the
# module that holds the graph (torch 2.13, torch/fx/graph_module.py, `GraphModule.recompile`). A lowering makes some
# four hundred such modules and calls a dozen of them, because passes interpret graphs.
#
# torch has a kind of module that generates on demand (`torch.fx._lazy_graph_module`), which its compiler uses, but the
# passes name the ordinary kind. So here the ordinary kind waits until its `forward` or its code is read. Two things
# differ from torch. If a graph is changed, its module is not recompiled, and the module is called for the first time
# after that, then the change is in effect. And a module cannot be pickled before its code is there. A lowering does
# neither.

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


# torch's overrides of composite operators, made once.
#
# To keep composite operators whole, torch 2.13 gives each of them, 550, a dozen Python kernels whenever a program is
# decomposed, and takes them away again (torch/export/exported_program.py, `_override_composite_implicit_decomp`). That
# happens three times a lowering. Here torch makes the kernels the first time. Later they are put in place again, if the
# operator is as it was before.

Kernels = dict[Any, Callable[..., Any]]
Decompositions = Mapping[Any, Callable[..., Any]]
"""How operators are to be decomposed."""


@dataclass(frozen=True)
class _Override:
    """What torch made of an operator: Python kernels and a rule for fake tensors, after those that it had `before`."""

    before: Kernels
    ruled_before: bool
    kernels: Kernels
    rule: Callable[..., Any]


_overridden: dict[Any, _Override] = {}
"""By the operator and how it is to be decomposed (`_identity`)."""


def remembered_overrides(
    by_torch: Callable[[Decompositions], AbstractContextManager[None]],
) -> Callable[[Decompositions], AbstractContextManager[None]]:
    """torch's context manager, which reuses what it made of an operator unless something else has changed that."""
    from torch._subclasses.fake_impls import op_implementations_dict as rules

    @contextmanager
    def override(decompositions: Decompositions) -> Iterator[None]:
        again: dict[Any, _Override] = {}
        asked = {operator: (operator, *_identity(how)) for operator, how in decompositions.items()}
        for operator, key in asked.items():
            known = _overridden.get(key)
            if known and known.before == operator.py_kernels and known.ruled_before == (operator in rules):
                again[operator] = known
        anew = {operator: how for operator, how in decompositions.items() if operator not in again}
        before = {operator: (dict(operator.py_kernels), operator in rules) for operator in anew}
        with by_torch(anew):
            for operator in anew:
                kernels = dict(operator.py_kernels)
                _overridden[asked[operator]] = _Override(*before[operator], kernels, rules[operator])
            for operator, known in again.items():
                _set_kernels(operator, known.kernels)
                rules[operator] = known.rule
            try:
                yield
            finally:
                for operator, known in again.items():
                    _set_kernels(operator, known.before)
                    rules.pop(operator, None)  # torch drops a rule that was there before, too

    return override


def _identity(how: Callable[..., Any]) -> tuple[Any, ...]:
    """Something that is equal for functions that do the same.

    torch makes its local functions again for every table of decompositions, so the functions themselves differ.
    """
    call = how if isinstance(how, functools.partial) else functools.partial(how)
    if getattr(call.func, "__closure__", ()) is not None or call.func.__defaults__ is not None:
        return (how,)
    return call.func.__code__, call.args, *sorted(call.keywords.items())


def _set_kernels(operator: Any, kernels: Kernels) -> None:
    operator.py_kernels.clear()
    operator.py_kernels.update(kernels)
    operator._dispatch_cache.clear()


# What is replaced in torchao while a model is lowered.

# torchao's search for the range of a histogram, with Python's numbers.
#
# torchao 0.18 (quantization/pt2e/observer.py, `HistogramObserver`) compares tensors of one number, 100,000 times two
# for a small histogram. Such a tensor compares with a number as a float, so the numbers are rounded to floats.


@functools.cache  # a patch is put in place for each lowering
def searched_by_numbers(_: object) -> Callable[[Any], tuple[torch.Tensor, torch.Tensor]]:
    """A method of HistogramObserver that returns the range with the least error, as torchao's own does."""
    lows = tuple(accumulate(repeat(1e-5, 100_002), initial=0.0))
    highs = tuple(accumulate(repeat(-1e-5, 100_002), initial=1.0))

    def search(self: Any) -> tuple[torch.Tensor, torch.Tensor]:
        total = self.histogram.sum().item()
        below = self.histogram.cumsum(0).tolist()
        first, last, least = 0, self.bins - 1, float("inf")
        low = high = 0  # steps from either side

        def ends(steps: int) -> bool:
            return lows[low] >= highs[steps] or below[last] > c_float(highs[steps + 1] * total).value

        while first < last and lows[low] < highs[high]:
            left = bisect_left(below, c_float(lows[low + 1] * total).value, first, last)
            right = max(bisect_right(below, c_float(highs[high + 1] * total).value, first, last + 1) - 1, first)
            if left - first > last - right:
                low, right = low + 1, last
            else:
                high, left = high + 1, first
            if (left, right) == (first, last):  # and so it stays, until the last bin is left out
                high = bisect_left(range(len(highs) - 1), True, high, key=ends)
                continue
            error = self._compute_quantization_error(left, right)
            if error > least:
                break
            first, last, least = left, right, error
        width = (self.max_val - self.min_val) / self.bins
        return self.min_val + width * first, self.min_val + width * (last + 1)

    return search


# Layers of 16 bits whose input lies in another order than its axes.
#
# Each pass of the Arm backend calls the layer with fake tensors: int16 inputs and int8 weights. torch 2.13 folds the
# batch into the rows where that needs no copy, and multiplies a matrix, of any types. Elsewhere, as behind
# `channels_last`, it multiplies in a batch (torch/_decomp/decompositions.py, `matmul`), which refuses two types.


def folded(upstream: Callable[[torch.Tensor, torch.Tensor, bool], bool]) -> Callable[..., bool]:
    """torch's `should_fold`, which says yes to a matrix of another type, too: only the shape is computed of these."""

    def should_fold(first: torch.Tensor, second: torch.Tensor, is_out: bool) -> bool:
        fewer, more = sorted((first.ndim, second.ndim))
        return upstream(first, second, is_out) or (fewer <= 2 < more and first.dtype != second.dtype)

    return should_fold
