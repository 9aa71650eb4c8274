"""`ethos-hil boards`: the list, a check and an explanation."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from ethos_hil.harness.boards.catalogue import SHIPPED
from ethos_hil.harness.boards.tests.samples import OWN
from ethos_hil.harness.cli.tests.test_cache_command import ethos_hil

NAMES = sorted(path.stem for path in SHIPPED.glob("*.toml"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder with a board of his own and one on his bench."""
    (tmp_path / "own.toml").write_text(OWN)
    (tmp_path / "bench.toml").write_text(
        'extends = "mps4-fi101"\nnpus = ["ethos-u85-256"]\nquirks = ["short-writes"]\n[link]\nurl = "/dev/ttyUSB1"\n'
    )
    return tmp_path


def run_boards(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    home = str(folder / "config")
    return ethos_hil("boards", *arguments, ETHOS_HIL_BOARDS=str(folder), XDG_CONFIG_HOME=home, COLUMNS="300")


def test_the_list_has_ours_and_the_users(folder: Path) -> None:
    done = run_boards(folder)
    assert (done.returncode, done.stderr) == (0, "")
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line[0] != " "}
    assert sorted(rows) == sorted(["board", "own", "bench", *NAMES])
    assert "/dev/ttyUSB1 at 115200" in rows["bench"]
    assert "nothing is missing" in rows["bench"]
    assert "? at 115200" in rows["alif-e8-hp"]
    assert "ethos-u55-32, -64, -128, -256" in rows["mps3-an547"]
    document = json.loads(run_boards(folder, "--json").stdout)
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
    listed = run_boards(folder)
    assert listed.returncode == 0
    assert f"ethos-hil: warning: {folder}/bad.toml:3: link.baud: 'fast' is not of type 'integer'" in listed.stderr
    checked = run_boards(folder, "check", "bad", "own")
    assert checked.returncode == 2
    assert checked.stdout.startswith("own: right")
    assert checked.stderr == (
        f"ethos-hil: {folder}/bad.toml:3: link.baud: 'fast' is not of type 'integer' "
        "(docs/boards.md has all keys and an example)\n"
    )
    document = json.loads(run_boards(folder, "check", "--json").stdout)
    assert [row["name"] for row in document["boards"]] == sorted(["own", "bench", *NAMES])
    assert "link.baud" in document["unusable"][0]["message"]


def test_a_check_takes_a_path(folder: Path) -> None:
    done = run_boards(folder, "check", str(folder / "bench.toml"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "bench: right\n", "")
    gone = run_boards(folder, "check", "gone.toml")
    assert (gone.returncode, gone.stdout) == (2, "")
    assert gone.stderr.startswith("ethos-hil: gone.toml cannot be read: No such file or directory (")


def test_an_explanation_has_each_value_with_its_source(folder: Path) -> None:
    done = run_boards(folder, "explain", "alif-e8-he")
    assert (done.returncode, done.stderr) == (0, "")
    assert "note: Switch SW4 connects" in done.stdout
    assert "reset: halt; reset\n" in done.stdout
    document = json.loads(run_boards(folder, "explain", "alif-e8-he", "--json").stdout)
    values = {value["key"]: value for value in document["values"]}
    assert values["soc.uart.base"] == {
        "key": "soc.uart.base",
        "value": 0x4901A000,
        "source": "Zephyr, dts/arm/alif/ensemble/common/ensemble_common.dtsi: uart2",
        "tried": "untried",
    }
    assert all(value["source"] for key, value in values.items() if key.startswith("soc.npu"))
    assert "quirk: short-writes: its probe breaks packets" in run_boards(folder, "explain", "bench").stdout


def test_an_unknown_board_is_one_line(folder: Path) -> None:
    done = run_boards(folder, "explain", "alif-e8")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ethos-hil: no board is called 'alif-e8' (did you mean alif-e8-")
    assert done.stderr.count("\n") == 1


def test_the_help_teaches() -> None:
    done = ethos_hil("boards", "--help")
    assert 'extends = "alif-e8-hp"\n' in done.stdout
    assert "--target board:" in done.stdout
