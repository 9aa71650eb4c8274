"""What is lowered is the same without the patches that only save time, and without all patches."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ethos_hil.lowering import lower as lowering
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.tests.conftest import MODELS, U55
from ethos_hil.lowering.upstream.patches import patch as applying
from ethos_hil.lowering.upstream.patches.patch import VARIABLE, Patch, apply, replace_attribute
from ethos_hil.lowering.upstream.patches.table import ORIGINS, PARTS, SPEED, VELA_PROCESS


def maps(artifact: Artifact) -> list[object]:
    """All rows but for the tensors' names: Vela numbers the tensors that it makes on through a process."""
    return [replace(row, tensor="") for delegate in artifact.delegates for row in delegate.npu_ops]


@pytest.fixture
def in_place(monkeypatch: pytest.MonkeyPatch) -> list[Patch]:
    """The patches that were put in place, in order."""
    patches: list[Patch] = []
    find = Patch.find

    def noted(patch: Patch) -> object:
        patches.append(patch)
        return find(patch)

    monkeypatch.setattr(Patch, "find", noted)
    return patches


@pytest.mark.slow
@pytest.mark.proof
@pytest.mark.parametrize("name", ["known", "two_partitions", "branching"])
def test_the_program_is_the_same_byte_for_byte_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_place: list[Patch], name: str
) -> None:
    with_all = lower(f"{MODELS}:{name}", U55, cache=Cache(tmp_path / "with"))
    assert set(in_place) == {*SPEED, *ORIGINS, *PARTS, *VELA_PROCESS}
    in_place.clear()
    monkeypatch.setattr(lowering, "SPEED", ())
    slow = lower(f"{MODELS}:{name}", U55, cache=Cache(tmp_path / "slow"))
    assert set(in_place) == {*ORIGINS, *PARTS, *VELA_PROCESS}
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
    from torch._export.utils import _collect_all_valid_cia_ops
    from torch.export import decomp_utils, exported_program

    owners = (
        (decomp_utils, "_collect_all_valid_cia_ops"),
        (exported_program, "_collect_all_valid_cia_ops"),
        (exported_program, "_override_composite_implicit_decomp"),
        (torch.fx.GraphModule, "recompile"),
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
