"""Protects how `--target labgrid` presents itself where there is no labgrid; suites/lab/farm has the tests with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ethos_hil.base.errors import TargetNotAvailable, UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.farm.side_process import PYTHON_VARIABLE
from ethos_hil.harness.farm.target import PLUGIN
from ethos_hil.harness.targets.registry import find_plugin

NPU = EthosU.parse("ethos-u55-128")


@pytest.fixture
def no_labgrid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PYTHON_VARIABLE, str(tmp_path / "none"))


@pytest.mark.usefixtures("no_labgrid")
def test_without_labgrid_it_is_listed_with_what_is_missing() -> None:
    missing = PLUGIN.find(NPU)
    assert missing is not None
    assert "which is neither a program nor an environment" in missing.message
    with pytest.raises(TargetNotAvailable, match="which is neither a program"):
        find_plugin("labgrid:desk1")


@pytest.mark.usefixtures("no_labgrid")
def test_the_family_needs_a_name() -> None:
    with pytest.raises(UsageError, match="the target labgrid needs a name") as caught:
        find_plugin("labgrid")
    assert caught.value.hint == "use one of labgrid:PLACE"


@pytest.mark.usefixtures("no_labgrid")
def test_what_is_no_choice_is_an_error_before_anything_is_started() -> None:
    with pytest.raises(UsageError, match="is not a tag=value as labgrid has them"):
        find_plugin("labgrid:board=")
