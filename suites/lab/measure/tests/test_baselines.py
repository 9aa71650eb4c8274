"""The published baselines: what is kept of the benchmark's points, and that a wrong one is seen."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.suites.lab.__main__ import main
from ethos_hil.suites.lab.measure import baselines
from ethos_hil.suites.lab.measure.baselines import BOOTED, DATA, GRID, KEPT, OF_BOOTED


def written() -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = json.loads(DATA.read_text("utf-8"))["points"]
    return points


def test_the_data_have_every_network_of_the_grid_and_its_boots() -> None:
    cases = [case["name"] for case in tomllib.loads(GRID.read_text("utf-8"))["case"]]
    assert list(dict.fromkeys(point["label"] for point in written())) == cases
    verified = [(point["label"], point["npu"]) for point in written() if point["verdict"] == "verified"]
    assert sorted(verified) == sorted((case, npu) for case in cases for npu in BOOTED)
    assert all(tuple(point) == (*KEPT, *OF_BOOTED * (point["verdict"] == "verified")) for point in written())


def test_a_command_compares_networks_with_what_is_written_and_sees_one_other_cycle(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = [dict(point) for point in written() if point["label"] == "lstm"]

    def bench(options: Sequence[str], jobs: int) -> list[dict[str, Any]]:
        if "--no-boot" in options:
            return measured
        npu = options[options.index("--npu") + 1]
        return [point for point in measured if point["npu"] == npu and point["verdict"] == "verified"]

    monkeypatch.setattr(baselines, "_bench", bench)
    monkeypatch.setattr(baselines, "timing_model_id", lambda: json.loads(DATA.read_text())["timing_model"])
    monkeypatch.setattr(baselines.environment, "versions", lambda: json.loads(DATA.read_text())["versions"])
    assert main(["baselines", "--check", "lstm"]) == 0
    measured[0]["cycles"] += 1
    assert main(["baselines", "--check", "lstm"]) == 1
    cycles = measured[0]["cycles"]
    assert f"lstm ethos-u55-32 Shared_Sram: cycles {cycles - 1} -> {cycles}" in capsys.readouterr().out


def test_only_all_networks_are_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the data have all networks"):
        main(["baselines", "lstm", "--data", str(tmp_path / "data.json")])
