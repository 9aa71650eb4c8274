"""torch's composite operators are collected once, and none is missed that is registered later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ethos_hil.lowering.upstream.patches import in_torch
from ethos_hil.lowering.upstream.patches.in_torch import collected_once

Collect = Callable[[], set[Any]]


@pytest.fixture
def collections(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many operators torch found, each time that it collected them."""
    monkeypatch.setattr(in_torch, "_collections", {})
    return []


@pytest.fixture
def collect(collections: list[int]) -> Collect:
    """torch's function, counted."""
    from torch._export.utils import _collect_all_valid_cia_ops

    _collect_all_valid_cia_ops()  # the first time in a process, it enters operators into the registry itself

    def counted() -> set[Any]:
        operators: set[Any] = _collect_all_valid_cia_ops()
        collections.append(len(operators))
        return operators

    return counted


def test_operators_are_collected_once_and_each_user_has_a_set_of_its_own(
    collect: Collect, collections: list[int]
) -> None:
    first = collected_once(collect)()
    count = len(first)
    first.clear()
    assert len(collected_once(collect)()) == count > 0
    assert collections == [count]


def test_what_is_registered_meanwhile_is_seen(collect: Collect, collections: list[int]) -> None:
    import torch

    remembered = collected_once(collect)
    before = remembered()
    library = torch.library.Library("ethos_hil_composites", "DEF")
    try:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
        operator = torch.ops.ethos_hil_composites.twice.default
        assert remembered() - before == {operator}
        assert len(collections) == 2
    finally:
        library._destroy()
