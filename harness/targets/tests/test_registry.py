"""Targets by name: what is refused, and by what declaration."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ethos_hil.base.errors import TargetNotAvailable, UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.socs.registry import FVP_PATH_VARIABLE, MODELS
from ethos_hil.harness.targets.plugin import TargetOption, TargetPlugin
from ethos_hil.harness.targets.registry import (
    TARGETS,
    check_npu,
    check_option,
    families,
    find_plugin,
    kind_of,
    list_targets,
    make_target,
)
from ethos_hil.harness.targets.virtual import VirtualTarget

U55, U85 = EthosU.parse("ethos-u55-128"), EthosU.parse("ethos-u85-256")
FVPS = sorted({model.soc.name for model in MODELS.values()})


def test_ours_are_registered_as_others_are() -> None:
    assert {"virtual", *FVPS} <= set(TARGETS.names())
    assert TARGETS.distributions("virtual") == ("ethos-hil",)
    assert set(find_plugin("virtual").npus) == {configuration.name for configuration in EthosU.all()}
    assert {npu for name in FVPS for npu in find_plugin(name).npus} == set(find_plugin("virtual").npus)
    for name in ("virtual", *FVPS):
        assert len(set(find_plugin(name).npus)) == len(find_plugin(name).npus)


def test_an_unknown_target_lists_the_known_ones_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="no target is called 'corstone-330'") as caught:
        make_target("corstone-330", U55)
    assert str(caught.value.hint).startswith("did you mean corstone-3")
    assert f"board, {', '.join(FVPS)}, virtual" in str(caught.value.hint)
    assert caught.value.exit_status == 2


def test_a_target_of_a_distribution_of_ours_that_is_not_installed_says_what_to_install() -> None:
    with pytest.raises(TargetNotAvailable) as caught:
        make_target("labgrid:desk1", U55)
    assert caught.value.message == "--target labgrid needs ethos-hil-labgrid, which is not installed"
    assert str(caught.value.hint).startswith("`pip install --no-deps ./extra/labgrid` in a checkout")
    assert caught.value.exit_status == 3


@pytest.mark.parametrize(
    ("soc", "npu", "hint"),
    [
        ("corstone-300", U85, "use --target corstone-320, or one of ethos-u55-32"),
        ("corstone-320", U55, "use --target corstone-300, or one of ethos-u85-128"),
        ("corstone-320", EthosU.parse("ethos-u65-256"), "use --target corstone-300, or one of ethos-u85-128"),
    ],
)
def test_an_npu_that_the_target_cannot_have_names_a_target_that_can(soc: str, npu: EthosU, hint: str) -> None:
    with pytest.raises(UsageError, match=f"the target {soc} cannot have an {npu}") as caught:
        make_target(soc, npu)
    assert str(caught.value.hint).startswith(hint)


def test_options_are_refused_by_what_a_target_declares() -> None:
    with pytest.raises(
        UsageError, match="--strict-waits needs to see into the NPU, which --target corstone-300"
    ) as caught:
        make_target("corstone-300", U55, strict=True)
    assert caught.value.hint == "use --target virtual, or leave out --strict-waits"
    with pytest.raises(UsageError, match="--fast is for FVPs; --target virtual has one speed") as caught:
        make_target("virtual", U55, fast=True)
    assert caught.value.hint == f"use --target {' or '.join(FVPS)}, or leave out --fast"
    with pytest.raises(UsageError, match="--strict-board is for the virtual board; --target corstone-300") as caught:
        make_target("corstone-300", U55, strict_board=True)
    assert caught.value.hint == "use --target virtual, or leave out --strict-board"
    # The same target with another declaration.
    deaf = dataclasses.replace(find_plugin("virtual"), name="deaf", options=frozenset())
    with pytest.raises(UsageError, match="--strict-waits needs to see into the NPU, which --target deaf"):
        check_option(deaf, TargetOption.STRICT)
    plugin = dataclasses.replace(deaf, npus=("ethos-u85-128",))
    with pytest.raises(UsageError, match="the target deaf cannot have an ethos-u85-256"):
        check_npu(plugin, U85)


def test_what_a_target_does_not_honour_does_not_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from ethos_hil.harness.virtual.board import BoardPool

    arguments: list[object] = []
    plugin = find_plugin("virtual")

    def make(npu: EthosU, settings: object) -> VirtualTarget:
        arguments.append(settings)
        return VirtualTarget(npu.name)

    with BoardPool() as pool:
        for options in (frozenset({TargetOption.POOL}), frozenset[TargetOption]()):
            other = dataclasses.replace(plugin, make=make, options=options)
            monkeypatch.setattr("ethos_hil.harness.targets.registry.find_plugin", lambda name, other=other: other)
            make_target("virtual", U55, pool=pool)
    assert [getattr(settings, "pool", None) is not None for settings in arguments] == [True, False]


def test_what_is_missing_is_said_before_a_target_is_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ETHOS_HIL_QEMU", "/nowhere/qemu")
    monkeypatch.setenv(FVP_PATH_VARIABLE, str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, npu, missing in (("virtual", U55, "/nowhere/qemu"), ("corstone-320", U85, "FVP_Corstone_SSE-320")):
        with pytest.raises(TargetNotAvailable, match=missing) as caught:
            make_target(name, npu)
        assert caught.value.exit_status == 3


def test_a_kind_that_records_do_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match="is of kind 'cloud'; there are virtual, fvp, board"):
        dataclasses.replace(find_plugin("virtual"), kind="cloud")
    assert [kind_of(name) for name in ("virtual", "corstone-300", "absent")] == ["virtual", "fvp", ""]


def test_the_listing_says_what_can_run_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fvp = tmp_path / "FVP_Corstone_SSE-300_Ethos-U65"
    fvp.write_text("#!/bin/sh\nexit 1\n")  # it is not started
    fvp.chmod(0o755)
    monkeypatch.setenv("ETHOS_HIL_QEMU", "/bin/true")
    monkeypatch.setenv(FVP_PATH_VARIABLE, str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    targets = {target.name: target for target in list_targets()}
    assert (targets["virtual"].problem, targets["virtual"].hint) == (None, None)
    assert str(targets["corstone-300"].problem).startswith(
        "with ethos-u65-256, -512 only: FVP_Corstone_SSE-300_Ethos-U55 is not"
    )
    assert str(targets["corstone-320"].problem).startswith("FVP_Corstone_SSE-320 is not")
    assert "fvp-launchers" in str(targets["corstone-320"].hint)


def test_a_target_whose_search_fails_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(npu: EthosU) -> None:
        raise ZeroDivisionError("a defect")

    good = find_plugin("virtual")
    bad = dataclasses.replace(good, name="bad", find=broken)
    both: list[tuple[str, TargetPlugin]] = [("bad", bad), ("virtual", good)]
    monkeypatch.setattr(type(TARGETS), "all", lambda self: iter(both))
    monkeypatch.setattr(type(TARGETS), "distributions", lambda self, name: ("theirs",))
    problem, good_one = list_targets()
    assert (good_one.name, good_one.npus) == ("virtual", good.npus)
    assert problem.problem == "the target 'bad' of theirs does not say what is missing: ZeroDivisionError: a defect"


def test_names_of_npus_are_shortened() -> None:
    assert families(("ethos-u55-32", "ethos-u55-64", "ethos-u85-128")) == "ethos-u55-32, -64, ethos-u85-128"
