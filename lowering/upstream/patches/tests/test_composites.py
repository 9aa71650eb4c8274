"""torch's composite operators are collected once, and none is missed that is registered later."""

from __future__ import annotations

import pytest

from ethos_hil.lowering.upstream.patches import composites
from ethos_hil.lowering.upstream.patches.composites import collected_once


@pytest.fixture
def collections(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many operators torch found, whenever it collected them."""
    from torch._export import utils
    from torch.export import decomp_utils, exported_program

    monkeypatch.setattr(composites, "_known", {})
    found: list[int] = []
    collect = utils._collect_all_valid_cia_ops

    def counted() -> set[object]:
        operators = collect()
        found.append(len(operators))
        return set(operators)

    counted.__name__ = collect.__name__
    for module in (utils, decomp_utils, exported_program):
        monkeypatch.setattr(module, collect.__name__, counted)
    return found


def test_operators_are_collected_once_and_each_user_has_a_set_of_its_own(collections: list[int]) -> None:
    from torch.export import decomp_utils, exported_program

    decomp_utils._collect_all_valid_cia_ops()  # the first of a process enters operators into the registry itself
    collections.clear()
    with collected_once():
        first = decomp_utils._collect_all_valid_cia_ops()
        count = len(first)
        first.clear()
        again = exported_program._collect_all_valid_cia_ops()
        assert len(again) == count > 0
        assert collections == [count]
    assert len(decomp_utils._collect_all_valid_cia_ops()) == count
    assert collections == [count, count], "outside torch collects as ever"


def test_what_is_registered_meanwhile_is_seen(collections: list[int]) -> None:
    import torch
    from torch.export import decomp_utils

    with collected_once():
        before = decomp_utils._collect_all_valid_cia_ops()
        library = torch.library.Library("ethos_hil_composites", "DEF")
        try:
            library.define("twice(Tensor x) -> Tensor")
            library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
            operator = torch.ops.ethos_hil_composites.twice.default
            after = decomp_utils._collect_all_valid_cia_ops()
            assert after - before == {operator}
            assert len(collections) == 2
        finally:
            library._destroy()
