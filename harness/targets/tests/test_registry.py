"""Targets by name: what is refused, and by what declaration."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import Recorded, plain
from ethos_hil.harness.ask.place import npu_of
from ethos_hil.harness.socs.registry import FVP_PATH_VARIABLE, MODELS
from ethos_hil.harness.targets import registry
from ethos_hil.harness.targets.plugin import TargetOption, TargetPlugin
from ethos_hil.harness.targets.registry import TARGETS, find_plugin, list_targets, make_target
from ethos_hil.harness.targets.virtual import VirtualTarget

U55, U85 = EthosU.parse("ethos-u55-128"), EthosU.parse("ethos-u85-256")
FVPS = sorted({model.soc.name for model in MODELS.values()})


def test_ours_are_registered_as_others_are() -> None:
    assert {"virtual", *FVPS} <= set(TARGETS.names())
    assert TARGETS.distributions("virtual") == ("ethos-hil",)
    npus = {name: find_plugin(name).npus for name in ("virtual", *FVPS)}
    assert all(len(set(names)) == len(names) for names in npus.values())
    assert set(npus.pop("virtual")) == {configuration.name for configuration in EthosU.all()}
    assert set().union(*npus.values()) == {configuration.name for configuration in EthosU.all()}


REFUSED: dict[str, tuple[str, str, dict[str, bool]]] = {
    "an unknown target": ("corstone-330", "ethos-u55-128", {}),
    "a target of ours that is not installed": ("labgrid:desk1", "ethos-u55-128", {}),
    "a U85 in a Corstone-300": ("corstone-300", "ethos-u85-256", {}),
    "a U55 in a Corstone-320": ("corstone-320", "ethos-u55-128", {}),
    "a U65 in a Corstone-320": ("corstone-320", "ethos-u65-256", {}),
    "strict waits of an FVP": ("corstone-300", "ethos-u55-128", {"strict": True}),
    "a fast virtual board": ("virtual", "ethos-u55-128", {"fast": True}),
    "a strict FVP": ("corstone-300", "ethos-u55-128", {"strict_board": True}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_names_what_to_use(recorded: Recorded, name: str) -> None:
    target, npu, options = REFUSED[name]
    with pytest.raises(EthosHilError) as caught:
        make_target(target, EthosU.parse(npu), **options)  # type: ignore[arg-type]
    recorded.check((caught.value.exit_status, caught.value.failure))


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


def test_a_kind_that_records_do_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match="is of kind 'cloud'; there are virtual, fvp, board"):
        dataclasses.replace(find_plugin("virtual"), kind="cloud")
    assert [registry.kind_of(name) for name in ("virtual", "corstone-300", "absent")] == ["virtual", "fvp", ""]


def test_the_listing_says_what_can_run_here(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fvp = tmp_path / "FVP_Corstone_SSE-300_Ethos-U65"
    fvp.write_text("#!/bin/sh\nexit 1\n")  # it is not started
    fvp.chmod(0o755)
    for variable, place in (("ETHOS_HIL_QEMU", "/bin/true"), (FVP_PATH_VARIABLE, tmp_path), ("PATH", tmp_path)):
        monkeypatch.setenv(variable, str(place))
    ours = [target for target in list_targets() if target.name in ("virtual", *FVPS)]
    recorded.check("\n".join(plain(f"{target.name}: {target.problem}\n  {target.hint}", [tmp_path]) for target in ours))


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


NPUS_MEANT = {
    "virtual": "ethos-u55-128",
    "corstone-320": "ethos-u55-128",  # can be one of several, so it is refused with their names
    "board:ek-ra8p1": "ethos-u55-256",
    "board:alif-e8-hp-u85": "ethos-u85-256",
    "board:mps3-an552": "ethos-u55-128",
    "board:no-such-board": "ethos-u55-128",
    "nothing": "ethos-u55-128",
}


def test_the_npu_that_is_meant_is_the_only_one_of_the_target(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('extends = "mps3-an547"\nnpus = ["ethos-u55-32"]\n')
    for target, npu in {**NPUS_MEANT, f"board:{path}": "ethos-u55-32"}.items():
        assert npu_of(None, target) == npu
        assert npu_of("ethos-u65-256", target) == "ethos-u65-256"
