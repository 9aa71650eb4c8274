"""torch's composite operators collected once: the same programs, and no operator missed that is registered later."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from lowering.cache import Cache
from lowering.composites import collected_once
from lowering.lower import lower
from lowering.tests.conftest import MODELS, U55


@pytest.fixture
def collections(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many operators torch found, whenever it collected them."""
    from torch._export import utils
    from torch.export import decomp_utils, exported_program

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


def test_torch_is_left_as_it_was_when_lowering_fails() -> None:
    from torch._export import utils
    from torch.export import decomp_utils, exported_program

    def fails() -> None:
        with collected_once():
            assert decomp_utils._collect_all_valid_cia_ops is not utils._collect_all_valid_cia_ops
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    for module in (decomp_utils, exported_program):
        assert module._collect_all_valid_cia_ops is utils._collect_all_valid_cia_ops


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two_partitions"])
def test_the_program_is_the_same_byte_for_byte_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collections: list[int], name: str
) -> None:
    with_it = lower(f"{MODELS}:{name}", U55, cache=Cache(tmp_path / "with"))
    few = len(collections)
    monkeypatch.setattr("lowering.lower.collected_once", nullcontext)
    without = lower(f"{MODELS}:{name}", U55, cache=Cache(tmp_path / "without"))
    assert with_it.pte == without.pte
    # Vela numbers the tensors it makes on through a process.
    maps = [[replace(row, tensor="") for row in each.npu_ops] for each in (with_it, without)]
    assert maps[0] == maps[1]
    assert len(collections) - few > few, "it was not the same that was measured"
