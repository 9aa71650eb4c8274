"""Every target of ours keeps the contract: the virtual boards, and the FVP driver on our launchers, with and without
timing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ethos_hil.harness.fvp_stand_in.launcher import install
from ethos_hil.harness.socs.registry import FVP_PATH_VARIABLE
from ethos_hil.harness.targets.contract import TargetContract


class Quick(TargetContract):
    patience = 1.0


class TestVirtualU55(Quick):
    target, npu = "virtual", "ethos-u55-128"


@pytest.mark.proof
class TestVirtualU65(Quick):
    target, npu = "virtual", "ethos-u65-256"


class TestVirtualU85(Quick):
    target, npu = "virtual", "ethos-u85-256"


class OnLaunchers(Quick):
    """With our launchers in the FVPs' place."""

    @pytest.fixture(scope="class")
    @classmethod
    def surroundings(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        folder: Path = tmp_path_factory.mktemp("launchers")
        install(folder)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(FVP_PATH_VARIABLE, str(folder))
            yield


class TestFvpU55(OnLaunchers):
    target, npu = "corstone-300", "ethos-u55-128"


@pytest.mark.proof
class TestFvpU65WithoutTiming(OnLaunchers):
    target, npu, fast = "corstone-300", "ethos-u65-256", True


class TestFvpU85(OnLaunchers):
    target, npu = "corstone-320", "ethos-u85-256"
