"""Protects how the distribution installs itself, and how `--target labgrid` presents itself where labgrid is not there;
test_farm.py has the tests with one.
"""

from __future__ import annotations

from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from ethos_hil.base.errors import TargetNotAvailable, UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.targets.registry import TARGETS, find_plugin
from ethos_hil_labgrid.side_process import PYTHON_VARIABLE
from ethos_hil_labgrid.target import PLUGIN

NPU = EthosU.parse("ethos-u55-128")
PACKAGE = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.usefixtures("installed")


@pytest.fixture
def no_labgrid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PYTHON_VARIABLE, str(tmp_path / "none"))


def test_it_installs_the_package_without_its_tests_and_registers_one_target(site: Path) -> None:
    assert {path.name for path in (site / "ethos_hil_labgrid").glob("*.py")} == {
        path.name for path in PACKAGE.glob("*.py")
    }
    assert not (site / "ethos_hil_labgrid/tests").exists()
    (metadata,) = site.glob("*.dist-info")
    entries = PathDistribution(metadata).entry_points
    assert [(entry.group, entry.name) for entry in entries] == [("ethos_hil.targets", "labgrid")]
    assert TARGETS.get("labgrid") is PLUGIN
    assert "ethos-hil-labgrid" in TARGETS.distributions("labgrid")


@pytest.mark.usefixtures("no_labgrid")
def test_without_labgrid_it_is_listed_with_what_is_missing() -> None:
    missing = PLUGIN.find(NPU)
    assert missing is not None
    assert "which is neither a program nor an environment" in missing.message
    with pytest.raises(TargetNotAvailable, match="which is neither a program"):
        find_plugin("labgrid:desk1")


@pytest.mark.usefixtures("no_labgrid")
@pytest.mark.parametrize(
    ("name", "message"),
    [("labgrid", "the target labgrid needs a name"), ("labgrid:board=", "is not a tag=value as labgrid has them")],
)
def test_what_is_not_a_choice_is_an_error_before_anything_is_started(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        find_plugin(name)
