"""What is lowered is the same without shortcuts, and they end with the lowering."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from ethos_hil.lowering.cache import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.tests.conftest import MODELS, U55
from ethos_hil.lowering.upstream import patches as shortcuts
from ethos_hil.lowering.upstream.patches.replaced import replaced

EACH = ("collected_once", "generated_on_demand", "remembered_overrides", "shared_history")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["known", "two_partitions"])
def test_the_program_is_the_same_byte_for_byte_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    entered: list[str] = []

    def seen(name: str, shortcut: Callable[[], AbstractContextManager[None]]) -> AbstractContextManager[None]:
        entered.append(name)
        return shortcut()

    for each in EACH:
        monkeypatch.setattr(shortcuts, each, partial(seen, each, getattr(shortcuts, each)))
    with_them = lower(f"{MODELS}:{name}", U55, cache=Cache(tmp_path / "with"))
    assert tuple(entered) == EACH
    for each in EACH:
        monkeypatch.setattr(shortcuts, each, nullcontext)
    without = lower(f"{MODELS}:{name}", U55, cache=Cache(tmp_path / "without"))
    assert len(entered) == len(EACH)
    assert with_them.pte == without.pte
    # Vela numbers the tensors it makes on through a process.
    maps = [[replace(row, tensor="") for each in one.delegates for row in each.npu_ops] for one in (with_them, without)]
    assert maps[0] == maps[1]


def test_torch_is_left_as_it_was_when_lowering_fails() -> None:
    import torch
    from torch._export.utils import _collect_all_valid_cia_ops
    from torch.export import decomp_utils, exported_program

    owners = (
        (decomp_utils, "_collect_all_valid_cia_ops"),
        (exported_program, "_collect_all_valid_cia_ops"),
        (exported_program, "_override_composite_implicit_decomp"),
        (torch.fx.GraphModule, "recompile"),
    )
    before = [getattr(owner, name) for owner, name in owners]
    assert before[0] is before[1] is _collect_all_valid_cia_ops

    def fails() -> None:
        with shortcuts.shortcuts():
            assert all(getattr(owner, name) is not old for (owner, name), old in zip(owners, before, strict=True))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert [getattr(owner, name) for owner, name in owners] == before


def test_histories_are_shared_only_inside() -> None:
    from torch.fx.traceback import NodeSource

    entry = NodeSource(None, "a pass")
    with shortcuts.shared_history():
        assert copy.deepcopy([entry])[0] is entry
    assert copy.deepcopy([entry])[0] is not entry
    assert "__deepcopy__" not in vars(NodeSource)


class _Owner:
    own = 1


class _Heir(_Owner):
    pass


@pytest.mark.parametrize(("owner", "name"), [(_Owner, "own"), (_Heir, "own"), (_Owner, "absent")])
def test_what_was_replaced_comes_back(owner: type, name: str) -> None:
    before = dict(vars(owner))
    with replaced(owner, name, 2):
        assert getattr(owner, name) == 2
    assert dict(vars(owner)) == before
