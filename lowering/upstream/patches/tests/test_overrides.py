"""Composite operators: collected once and completely, and overridden as torch does it, the first time and later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import pytest
import torch

from ethos_hil.lowering.upstream.patches import in_torch
from ethos_hil.lowering.upstream.patches.in_torch import _identity, collected_once
from ethos_hil.lowering.upstream.patches.patch import apply
from ethos_hil.lowering.upstream.patches.table import SPEED


def test_operators_are_collected_once_until_another_one_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each user has a set of its own."""
    from torch._export.utils import _collect_all_valid_cia_ops

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
    from torch._export.utils import _collect_all_valid_cia_ops
    from torch._subclasses.fake_impls import op_implementations_dict as rules

    operators = _collect_all_valid_cia_ops()
    return {str(operator): ([str(key) for key in operator.py_kernels], operator in rules) for operator in operators}


@contextmanager
def overridden(table: dict[Any, Any] | None = None) -> Iterator[None]:
    """While torch keeps composite operators whole, but those in the table."""
    from torch.export import exported_program

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
