"""What is lowered, and all that torch does meanwhile, is the same without the patches that only save time."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from executorch.exir.pass_base import ExportPass
from torch import Tensor, nn
from torch._export.utils import _collect_all_valid_cia_ops
from torch._subclasses.fake_impls import op_implementations_dict as rules
from torch.export import decomp_utils, exported_program
from torch.export.exported_program import ExportedProgram
from torch.fx import GraphModule, symbolic_trace
from torchao.quantization.pt2e import HistogramObserver

from ethos_hil.lowering import lower as lowering
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.testing.function_module import keeping
from ethos_hil.lowering.tests.conftest import MODELS, U55
from ethos_hil.lowering.upstream.patches import in_torch, retracing
from ethos_hil.lowering.upstream.patches import patch as applying
from ethos_hil.lowering.upstream.patches.in_torch import _identity, collected_once, generated_on_demand
from ethos_hil.lowering.upstream.patches.patch import VARIABLE, Patch, apply, replace_attribute
from ethos_hil.lowering.upstream.patches.table import OF_LOWERING, SPEED


def maps(artifact: Artifact) -> list[object]:
    """All rows but for the tensors' names: Vela numbers the tensors that it makes on through a process."""
    return [replace(row, tensor="") for delegate in artifact.delegates for row in delegate.npu_ops]


def called_on(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[Any]:
    """A list that gets each object on which a method is called from now on, in order."""
    objects: list[Any] = []
    method = getattr(owner, name)

    def noted(this: Any, *arguments: Any, **named: Any) -> Any:
        objects.append(this)
        return method(this, *arguments, **named)

    monkeypatch.setattr(owner, name, noted)
    return objects


@pytest.mark.slow
@pytest.mark.proof
@pytest.mark.parametrize("name", ["known", "two_partitions", "branching"])
def test_the_program_is_the_same_byte_for_byte_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    in_place = called_on(monkeypatch, Patch, "find")
    with_all = lower(f"{MODELS}:{name}", U55, cache=Cache(tmp_path / "with"))
    assert set(in_place) == {*SPEED, *OF_LOWERING}
    in_place.clear()
    monkeypatch.setattr(lowering, "SPEED", ())
    slow = lower(f"{MODELS}:{name}", U55, cache=Cache(tmp_path / "slow"))
    assert set(in_place) == {*OF_LOWERING}
    in_place.clear()
    monkeypatch.setenv(VARIABLE, "off")
    without = lower(f"{MODELS}:{name}", U55, cache=Cache(tmp_path / "without"))
    assert in_place == []
    assert with_all.pte == slow.pte == without.pte
    assert [delegate.tosa for delegate in with_all.delegates] == [delegate.tosa for delegate in without.delegates]
    assert maps(with_all) == maps(slow) == maps(without)
    assert with_all.notes == without.notes


@pytest.mark.filterwarnings("error")
def test_torch_is_left_as_it_was_when_lowering_fails_and_patches_are_put_in_place_once() -> None:
    collect, override = "_collect_all_valid_cia_ops", "_override_composite_implicit_decomp"
    owners = (
        (decomp_utils, collect),
        (exported_program, collect),
        (exported_program, override),
        (GraphModule, "recompile"),
    )

    def now() -> list[object]:
        return [getattr(owner, name) for owner, name in owners]

    def fails() -> None:
        with apply(SPEED):
            inside = now()
            assert all(new is not old for new, old in zip(inside, before, strict=True))
            with apply(SPEED):
                assert now() == inside
            assert now() == inside
            raise ZeroDivisionError

    before = now()
    assert before[0] is before[1] is _collect_all_valid_cia_ops
    with pytest.raises(ZeroDivisionError):
        fails()
    assert now() == before
    assert not applying._inside


class _Owner:
    own = 1


class _Heir(_Owner):
    pass


@pytest.mark.parametrize(
    ("owner", "name", "adds", "problem"),
    [
        (_Owner, "own", False, ""), (_Heir, "own", False, ""), (_Owner, "new", True, ""),
        (_Owner, "absent", False, "no attribute"), (_Owner, "own", True, "already an"),
    ],
)  # fmt: skip
def test_what_was_replaced_comes_back_and_what_does_not_fit_stays(
    owner: type, name: str, adds: bool, problem: str
) -> None:
    before = dict(vars(owner))
    with pytest.raises(AttributeError, match=problem) if problem else nullcontext():
        with replace_attribute(owner, name, 2, adds=adds):
            assert getattr(owner, name) == 2
        assert not problem
    assert dict(vars(owner)) == before


# --- Composite operators: collected once and completely, and overridden as torch does it, the first time and later.


def test_operators_are_collected_once_until_another_one_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each user has a set of its own."""
    monkeypatch.setattr(in_torch, "_collections", {})
    _collect_all_valid_cia_ops()  # the first time in a process, it enters operators into the registry itself
    collections: list[int] = []

    def counted() -> set[Any]:
        operators: set[Any] = _collect_all_valid_cia_ops()
        collections.append(len(operators))
        return operators

    before = collected_once(counted)()
    collected_once(counted)().clear()
    assert collected_once(counted)() == before
    assert collections == [len(before)]
    library = torch.library.Library("ethos_hil_composites", "DEF")
    try:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
        assert collected_once(counted)() - before == {torch.ops.ethos_hil_composites.twice.default}
        assert len(collections) == 2
    finally:
        library._destroy()


# --- Remembered overrides leave torch's operators as torch's own do, the first time and later, and torch as it was.


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_torch, "_overridden", {})


def remembered_overrides() -> AbstractContextManager[None]:
    return apply([patch for patch in SPEED if patch.name == "overrides"])


def tables() -> dict[str, tuple[list[str], bool]]:
    """Of every composite operator, the keys of its Python kernels, and whether it has a rule for fake tensors."""
    operators = _collect_all_valid_cia_ops()
    return {str(operator): ([str(key) for key in operator.py_kernels], operator in rules) for operator in operators}


@contextmanager
def overridden(table: dict[Any, Any] | None = None) -> Iterator[None]:
    """While torch keeps composite operators whole, but those in the table."""
    composites, _ = exported_program._split_decomp_table_to_cia_and_python_decomp(table or {})
    with exported_program._override_composite_implicit_decomp(composites):
        yield


def test_operators_have_the_same_kernels() -> None:
    with overridden():
        pass  # torch loses rules for fake tensors the first time
    before = tables()
    rounds = []
    for context in (nullcontext(), remembered_overrides(), remembered_overrides()):
        with context, overridden():
            rounds.append(tables())
        assert tables() == before
    with pytest.raises(ZeroDivisionError), remembered_overrides(), overridden():
        raise ZeroDivisionError
    assert tables() == before, "also where it fails"
    assert rounds[0] == rounds[1] == rounds[2]
    assert sum(len(keys) for keys, _ in rounds[0].values()) > 5000 + sum(len(keys) for keys, _ in before.values())


def test_functions_are_told_apart() -> None:
    def local(value: int) -> Any:
        return lambda: value

    def other(value: int = 1) -> int:
        return value

    def copied() -> Any:
        return lambda: 0

    different = [len, abs, local(1), local(2), other, partial(len, ""), partial(copied(), 1), copied()]
    different += [partial(copied(), one=1), partial(copied(), one=2), partial(other, 1)]
    assert len({_identity(function) for function in different}) == len(different)
    assert _identity(copied()) == _identity(copied())
    assert _identity(partial(copied(), a=1, b=2)) == _identity(partial(copied(), b=2, a=1))


LINEAR: Any = torch.ops.aten.linear.default
KEYS = torch._C.DispatchKey


def test_an_operator_that_changed_is_overridden_anew() -> None:
    before = dict(LINEAR.py_kernels)
    with remembered_overrides():
        with overridden():
            assert LINEAR.py_kernels[KEYS.AutogradCPU] is not len
        try:
            LINEAR.py_kernels[KEYS.AutogradCPU] = len
            with overridden():
                assert LINEAR.py_kernels[KEYS.AutogradCPU] is len
            assert LINEAR.py_kernels == {**before, KEYS.AutogradCPU: len}
        finally:
            LINEAR.py_kernels.clear()
            LINEAR.py_kernels.update(before)


def test_an_operator_that_is_to_be_decomposed_is_not_kept_whole() -> None:
    kernels = []
    with remembered_overrides():
        for table in ({}, {LINEAR: len}, {}):
            with overridden(table):
                kernels.append(LINEAR.py_kernels[KEYS.CompositeImplicitAutograd])
    assert [kernel is len for kernel in kernels] == [False, True, False]
    assert kernels[0] is kernels[2]


# --- What is not done again: passes, decompositions and generated code, where that changes nothing.


def twice_the_same(net: Any, x: Tensor) -> Tensor:
    once = torch.relu(net.first(x))
    again = torch.relu(net.first(x))  # equal to it, and another node
    result: Tensor = net.second(once + again).view(2, 2)
    return result


@pytest.fixture
def exported() -> ExportedProgram:
    net = keeping(twice_the_same, first=nn.Linear(4, 4), second=nn.Linear(4, 4))
    return torch.export.export(net.eval(), (torch.ones(1, 4),))


def edge(program: ExportedProgram) -> torch.fx.GraphModule:
    manager = to_edge(program, compile_config=EdgeCompileConfig(_check_ir_validity=False))
    module = manager.exported_program().graph_module
    assert isinstance(module, torch.fx.GraphModule)
    return module


def described(module: torch.fx.GraphModule) -> list[str]:
    nodes = module.graph.nodes
    return [f"{node.format_node()} {node.kwargs} {node.meta.get('val')} {sorted(node.meta)}" for node in nodes]


def traced(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    result = ExportPass()(module)
    assert result is not None
    return result.graph_module


def calls_of(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [node for node in module.graph.nodes if node.op == "call_function"]


def test_a_pass_makes_the_same_graph_and_calls_each_operator_once(
    exported: ExportedProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = called_on(monkeypatch, EdgeOpOverload, "__call__")
    module, wide = edge(exported), edge(torch.export.export(nn.ReLU(), (torch.ones(1, 8),)))
    plain = described(traced(traced(module)))
    with apply(SPEED):
        called.clear()
        first = traced(module)
        assert len(called) == len(calls_of(module))
        second = traced(first)
        assert len(called) == len(calls_of(module)), "none is called again"
        assert described(second) == plain
        assert len({id(node.meta["val"]) for node in calls_of(second)}) == len(calls_of(second)), "they share no value"
        called.clear()
        (node,) = calls_of(traced(wide))
        assert (len(called), tuple(node.meta["val"].shape)) == (1, (1, 8)), "another shape is asked for again"


def test_views_and_what_changes_its_input_are_never_remembered() -> None:
    calls = retracing._Calls()
    mode = torch._subclasses.fake_tensor.FakeTensorMode()
    with mode:
        x = torch.ones(4)

    interpreter = torch.fx.Interpreter(torch.fx.GraphModule(nn.Module(), torch.fx.Graph()))
    callback: Any = SimpleNamespace(fake_tensor_mode=mode, interpreter=interpreter, tracer=SimpleNamespace())
    with mode:
        for _ in range(2):
            view = calls.result(callback, torch.ops.aten.view.default, (x, [2, 2]), {})
            assert view.untyped_storage()._cdata == x.untyped_storage()._cdata
        assert not any(calls._results.values())
        with pytest.raises(retracing._Unknown):
            calls.result(callback, torch.ops.aten.add_.Tensor, (x, x), {})


@pytest.mark.parametrize("changed", [False, True])
def test_a_program_is_traced_again_only_where_that_can_change_it(exported: ExportedProgram, changed: bool) -> None:
    linear = torch.ops.aten.linear.default
    table = torch.export.default_decompositions()
    with apply(SPEED):
        first = exported.run_decompositions({})
        assert first is not exported
        if changed:
            relu = next(node for node in first.graph.nodes if node.target == torch.ops.aten.relu.default)
            relu.args = (relu.args[0].args[0],)
        again = first.run_decompositions({})
        assert (again is first) is not changed
        program = again.run_decompositions({torch.ops.aten.gelu.default: torch.nn.functional.gelu})
        decomposed = again.run_decompositions(table)
    assert program is again
    assert linear in {node.target for node in program.graph.nodes}
    assert linear not in {node.target for node in decomposed.graph.nodes}


def test_a_program_with_state_is_always_traced() -> None:
    def count(module: Any, x: Tensor) -> Tensor:
        module.n.add_(1)
        return x + module.n

    exported = torch.export.export(keeping(count, n=torch.zeros(1)), (torch.ones(1),))
    with apply(SPEED):
        first = exported.run_decompositions({})
        assert first.run_decompositions({}) is not first


# --- A graph module whose code is generated on demand does whatever one does that has it from the start.


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor, factor: int = 2) -> Tensor:
        return self.linear(x) * factor


X = torch.arange(3.0)


@pytest.fixture
def generations(monkeypatch: pytest.MonkeyPatch) -> list[GraphModule]:
    """The modules whose code torch generated, in order."""
    return called_on(monkeypatch, GraphModule, "recompile")


@pytest.fixture
def module(generations: list[GraphModule]) -> Iterator[GraphModule]:
    """A module without code: the patch is on what counts."""
    with replace_attribute(GraphModule, "recompile", generated_on_demand(GraphModule.recompile)):
        yield symbolic_trace(Twice())


def is_computed(module: GraphModule, factor: int = 2) -> bool:
    return bool(torch.equal(module(X), module.get_submodule("linear")(X) * factor))


def triple(module: GraphModule) -> None:
    product = next(node for node in module.graph.nodes if node.name == "mul")
    product.args = (product.args[0], 3)


def test_it_is_generated_when_it_is_called_and_after_recompiling(
    module: GraphModule, generations: list[GraphModule]
) -> None:
    assert not generations
    assert is_computed(module)
    assert module.forward(X, factor=2).equal(module(X))
    assert generations == [module]
    triple(module)
    assert is_computed(module)
    module.recompile()
    assert is_computed(module, 3)


def test_modules_inside_are_recompiled_with_it(module: GraphModule) -> None:
    graph = torch.fx.Graph()
    graph.output(graph.call_module("inner", (graph.placeholder("x"),)))
    outer = GraphModule({"inner": module}, graph)
    outer(X)
    triple(module)
    outer.recompile()
    assert is_computed(module, 3)


@pytest.mark.parametrize("called", [False, True])
def test_it_can_be_copied(module: GraphModule, called: bool) -> None:
    if called:
        module(X)
    for other in (copy.copy(module), copy.deepcopy(module)):
        assert is_computed(other)
        assert other.code == module.code


# --- The range of a histogram is the one that torchao finds.


@pytest.mark.parametrize(("count", "seed"), [(20, 4), (60, 0), (300, 3), (100_000, 3)])
def test_the_same_range_is_found(count: int, seed: int) -> None:
    """Where 100,000 values were seen, a hundred-thousandth of them is a whole number: it counts how that is rounded."""
    values = torch.randn(count, generator=torch.Generator().manual_seed(seed))
    search = in_torch.searched_by_numbers(None)
    for seen in ([values], [values.relu()], [-(values.exp() ** 3)], [values, 2 * values]):
        observer = HistogramObserver(dtype=torch.int8)
        for part in seen:
            observer(part)
        assert search(observer) == observer._non_linear_param_search()
