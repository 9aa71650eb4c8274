"""The wiretap keeps the contract of a target, and what was on the wire."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ethos_hil_wiretap import FOLDER_VARIABLE, WiretapTarget, listing

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.targets.contract import TargetContract, contract_programs

NPU = "ethos-u55-128"


class TestWiretap(TargetContract):
    """All that is promised of any target."""

    target = "wiretap"
    npu = NPU

    @pytest.fixture(scope="class")
    @classmethod
    def surroundings(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        """A folder for the files."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(FOLDER_VARIABLE, str(tmp_path_factory.mktemp("wires")))
            yield


def test_all_that_was_sent_is_kept(tmp_path: Path) -> None:
    board = WiretapTarget(EthosU.parse(NPU), tmp_path)
    image = contract_programs(NPU)[0].image(board.soc)
    board.load(image)
    board.run(timeout=60)
    data = (tmp_path / f"{image.run_id.hex()}.uart").read_bytes()
    lines = listing(data)
    assert lines[0].startswith("HELLO")
    assert lines[-1].startswith("END")
    assert listing(data[:-1])[-1].startswith(f"after {len(lines) - 1} frames")
