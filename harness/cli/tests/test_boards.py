"""`ethos-hil boards`: the list, a check and an explanation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ethos_hil.base.testing.recorded import Recorded, plain
from ethos_hil.harness.boards.catalogue import SHIPPED
from ethos_hil.harness.boards.tests.samples import OWN
from ethos_hil.harness.testing.command import Run, check_errors, check_session, run_command

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


def test_the_list_has_ours_and_the_users(folder: Path, recorded: Recorded) -> None:
    status, out, err = boards()
    assert (status, err) == (0, "")
    rows = {line.split()[0]: line for line in out.splitlines() if line[0] != " "}
    assert sorted(rows) == sorted(["board", "own", "bench", *NAMES])
    recorded.check("\n".join(rows[name].rstrip() for name in ("board", "bench")))
    assert "? at 115200" in rows["alif-e8-hp"]
    assert "ethos-u55-32, -64, -128, -256" in rows["mps3-an547"]
    document = json.loads(boards("--json")[1])
    document["boards"] = [board for board in document["boards"] if board["name"] == "bench"]
    recorded.check(plain(json.dumps(document, indent=1), [folder]), "json")


def test_a_wrong_file_is_a_warning_in_the_list_and_an_error_in_a_check(folder: Path, recorded: Recorded) -> None:
    (folder / "bad.toml").write_text('extends = "own"\n[link]\nbaud = "fast"\n')
    listed, checked = run_command("boards"), run_command("boards", "check", "bad", "bench")
    recorded.check("\n".join([listed._replace(out="").shown(folder), checked.shown(folder)]))
    document = json.loads(boards("--json")[1])
    assert [row["name"] for row in document["boards"]] == sorted(["own", "bench", *NAMES])
    assert "link.baud" in document["unusable"][0]["message"]
    assert boards("check", folder / "bench.toml") == (0, "bench: right\n", "")


def test_an_explanation_has_each_value_with_its_source(folder: Path, recorded: Recorded) -> None:
    shown = "| note reset soc.uart.base quirk"
    check_session(recorded, run_command, [f"boards explain {name} {shown}" for name in ("alif-e8-he", "bench")])


def test_what_is_no_board_is_one_line(folder: Path, ethos_hil: Run, recorded: Recorded) -> None:
    check_errors(recorded, ethos_hil, "boards", ["explain alif-e8", "check gone.toml"])


def test_the_help_teaches() -> None:
    assert [text for text in ('extends = "alif-e8-hp"\n', "--target board:") if text not in boards("--help")[1]] == []
