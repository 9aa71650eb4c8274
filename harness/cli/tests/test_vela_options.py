"""What a user asks of Vela reaches it, is in the record, and decides the modelled cycles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.testing.command import Run, check_errors
from ethos_hil.lowering.vela.ini import VelaIni

SLOW = "[System_Config.Slow]" + VelaIni.shipped().text.partition("[System_Config.Ethos_U55_High_End_Embedded]")[2]
SLOW = SLOW.replace("OffChipFlash_clock_scale=0.125", "OffChipFlash_clock_scale=0.0125")


def record_of(ethos_hil: Run, here: Path, *arguments: object) -> dict[str, Any]:
    result = ethos_hil("run", *arguments, "--json", here / "record.json")
    assert result.status == 0, result.err
    data: dict[str, Any] = json.loads((here / "record.json").read_text())
    return data


def cycles(record: dict[str, Any]) -> float:
    (metric,) = [metric for metric in record["metrics"] if metric["name"] == "npu_cycles"]
    assert metric["provenance"] == "modelled"
    return float(metric["value"])


@pytest.mark.slow
def test_a_users_system_is_compiled_for_and_timed(
    ethos_hil: Run, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "my.ini").write_text(SLOW)
    default = record_of(ethos_hil, here, "net.py:net")
    assert default["system_config"] == "Ethos_U55_High_End_Embedded"
    options = ("--vela-ini", "my.ini", "--system-config", "Slow", "--vela-flag=--disable-cascading")
    own = record_of(ethos_hil, here, "net.py:net", *options)
    assert own["system_config"] == "Slow"
    assert {"--config=my.ini", "--system-config=Slow", "--disable-cascading"} <= set(own["artifact"]["vela_flags"])
    assert cycles(own) > 1.5 * cycles(default)
    assert not [note for note in own["notes"] if "memories" in note]

    # The file is not needed any more, neither for the cached model nor for the program that was made with it.
    assert ethos_hil("lower", "net.py:net", *options).status == 0
    (here / "my.ini").unlink()
    assert cycles(record_of(ethos_hil, here, "net.pte")) == cycles(own)

    # Where nobody knows the file, the cycles are the default system's, and the record says so. The program is one of
    # unknown origin then, which has no reference; what is said of its cycles is known before.
    monkeypatch.setenv("ETHOS_HIL_CACHE", str(tmp_path / "another"))
    unknown = ethos_hil("run", "net.pte")
    assert unknown.status == 1


def test_one_clear_line_before_anything_is_lowered(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    (here / "my.ini").write_text(SLOW.replace("core_clock=500e6", "core_clock=quick", 1))
    variants = [
        "--vela-ini my.ini --system-config Slow", "--vela-ini absent.ini", "--system-config Ethos_U85_SYS_DRAM_Mid",
        "--arena-cache-size much", "--vela-flag=--config=x",
    ]  # fmt: skip
    for command in ("run", "preflight", "lower"):
        check_errors(recorded, ethos_hil, f"{command} net.py:net", variants)
    check_errors(recorded, ethos_hil, "lower net.py:net --to tosa", ["--optimise Size"])
    assert ethos_hil("lower", "net.py:net").status == 0
    check_errors(recorded, ethos_hil, "run net.pte", ["--optimise Size"], lowers=True)
