"""Quick registration leaves torch's operators as its own does, errors included, and torch as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from lowering.cache import Cache
from lowering.lower import lower
from lowering.registration import quick_registration
from lowering.tests.conftest import MODELS, U55


def tables() -> dict[str, list[str]]:
    """The keys of every composite operator's Python kernels."""
    from torch._export.utils import _collect_all_valid_cia_ops

    return {str(each): [str(key) for key in each.py_kernels] for each in _collect_all_valid_cia_ops()}


def overridden(quick: Any) -> dict[str, list[str]]:
    """The same while torch keeps composite operators whole."""
    from torch.export import exported_program

    composites, _ = exported_program._split_decomp_table_to_cia_and_python_decomp({})
    with quick, exported_program._override_composite_implicit_decomp(composites):
        return tables()


def test_operators_have_the_same_kernels() -> None:
    before = tables()
    plain, quick = overridden(nullcontext()), overridden(quick_registration())
    assert plain == quick
    assert sum(map(len, plain.values())) > 5000 + sum(map(len, before.values()))
    assert tables() == before


def test_what_torch_refuses_is_refused() -> None:
    import torch

    operator: Any = torch.ops.aten.linear.default
    keys = torch._C.DispatchKey
    for context in (nullcontext(), quick_registration()):
        before = dict(operator.py_kernels)
        with context:
            try:
                assert operator.py_impl(keys.AutogradXLA)(len) is len
                assert operator.py_kernels[keys.AutogradXLA] is len
                with pytest.raises(RuntimeError, match="override a python impl"):
                    operator.py_impl(keys.AutogradXLA)(abs)
                assert operator.py_kernels[keys.AutogradXLA] is len
                with pytest.raises(AssertionError, match="register a mode"):
                    operator.py_impl(keys.Python)(len)
                with pytest.raises(AssertionError, match="expected DispatchKey"):
                    operator.py_impl("CPU")(len)
            finally:
                operator.py_kernels.clear()
                operator.py_kernels.update(before)


def test_torch_is_left_as_it_was() -> None:
    import torch

    before = torch._ops.OpOverload.py_impl

    def fails() -> None:
        with quick_registration():
            assert torch._ops.OpOverload.py_impl is not before
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert torch._ops.OpOverload.py_impl is before
    assert "py_impl" not in vars(torch._ops.OpOverload)


@pytest.mark.slow
def test_the_program_is_the_same_byte_for_byte_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[bool] = []

    @contextmanager
    def seen() -> Iterator[None]:
        entered.append(True)
        with quick_registration():
            yield

    monkeypatch.setattr("lowering.lower.quick_registration", seen)
    with_it = lower(f"{MODELS}:known", U55, cache=Cache(tmp_path / "with"))
    assert entered == [True]
    monkeypatch.setattr("lowering.lower.quick_registration", nullcontext)
    without = lower(f"{MODELS}:known", U55, cache=Cache(tmp_path / "without"))
    assert with_it.pte == without.pte
