"""`ethos-hil boards`: the list, a check and an explanation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.boards.catalogue import SHIPPED
from ethos_hil.harness.boards.tests.samples import OWN
from ethos_hil.harness.testing.command import Run, check_errors, run_command

NAMES = sorted(path.stem for path in SHIPPED.glob("*.toml"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with a board of his own and one on his bench, and nothing else of boards."""
    (tmp_path / "own.toml").write_text(OWN)
    (tmp_path / "bench.toml").write_text(
        'extends = "mps4-fi101"\nnpus = ["ethos-u85-256"]\nquirks = ["short-writes"]\n[link]\nurl = "/dev/ttyUSB1"\n'
    )
    monkeypatch.setenv("ETHOS_HIL_BOARDS", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "300")
    return tmp_path


def boards(*arguments: object) -> tuple[int, str, str]:
    return run_command("boards", *arguments)


def test_the_list_has_ours_and_the_users(folder: Path) -> None:
    status, out, err = boards()
    assert (status, err) == (0, "")
    rows = {line.split()[0]: line for line in out.splitlines() if line[0] != " "}
    assert sorted(rows) == sorted(["board", "own", "bench", *NAMES])
    assert "/dev/ttyUSB1 at 115200" in rows["bench"]
    assert "nothing is missing" in rows["bench"]
    assert "? at 115200" in rows["alif-e8-hp"]
    assert "ethos-u55-32, -64, -128, -256" in rows["mps3-an547"]
    document = json.loads(boards("--json")[1])
    assert document["schema_version"] == 1
    assert document["unusable"] == []
    bench = next(board for board in document["boards"] if board["name"] == "bench")
    assert bench == {
        "name": "bench",
        "description": "Arm MPS4, FPGA image FI101: Cortex-M85, Ethos-U85",
        "soc": "corstone-320",
        "npus": ["ethos-u85-256"],
        "server": "none",
        "link": "/dev/ttyUSB1",
        "baud": 115200,
        "file": str(folder / "bench.toml"),
        "shipped": False,
        "missing": [],
    }


def test_a_wrong_file_is_a_warning_in_the_list_and_an_error_in_a_check(folder: Path) -> None:
    (folder / "bad.toml").write_text('extends = "own"\n[link]\nbaud = "fast"\n')
    wrong = f"{folder}/bad.toml:3: link.baud: 'fast' is not of type 'integer'"
    status, _, err = boards()
    assert (status, f"ethos-hil: warning: {wrong}" in err) == (0, True)
    status, out, err = boards("check", "bad", "own")
    assert (status, out.startswith("own: right")) == (2, True)
    assert err == f"ethos-hil: {wrong} (docs/boards.md has all keys and an example)\n"
    status, out, err = boards("--json")
    document = json.loads(out)
    assert [row["name"] for row in document["boards"]] == sorted(["own", "bench", *NAMES])
    assert "link.baud" in document["unusable"][0]["message"]


def test_a_check_takes_a_path(folder: Path) -> None:
    assert boards("check", folder / "bench.toml") == (0, "bench: right\n", "")


def test_an_explanation_has_each_value_with_its_source(folder: Path) -> None:
    status, out, err = boards("explain", "alif-e8-he")
    assert (status, err) == (0, "")
    assert "note: Switch SW4 connects" in out
    assert "reset: halt; reset\n" in out
    (line,) = (line for line in out.splitlines() if line.startswith("soc.uart.base "))
    assert line.split() == [
        *("soc.uart.base", "0x4901a000"),
        *("Zephyr,", "dts/arm/alif/ensemble/common/ensemble_common.dtsi:", "uart2", "untried"),
    ]
    assert "quirk: short-writes: its probe breaks packets" in boards("explain", "bench")[1]


def test_what_is_no_board_is_one_line(folder: Path, command_line: Run, recorded: Recorded) -> None:
    check_errors(recorded, command_line, "boards", ["explain alif-e8", "check gone.toml"])


def test_the_help_teaches() -> None:
    _, out, _ = boards("--help")
    assert 'extends = "alif-e8-hp"\n' in out
    assert "--target board:" in out
