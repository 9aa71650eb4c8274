"""Where boards are found, and in which order."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.harness.boards import catalogue
from ethos_hil.harness.boards.catalogue import SHIPPED, all_boards, board_files, find_board, shipped_boards
from ethos_hil.harness.boards.tests.samples import OWN
from ethos_hil.harness.socs.registry import find_soc, shipped_socs


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The folder that the environment names, and the user's own."""
    named, home = tmp_path / "named", tmp_path / "config/ethos-hil/boards"
    named.mkdir()
    home.mkdir(parents=True)
    monkeypatch.setenv("ETHOS_HIL_BOARDS", str(named))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(catalogue, "_by_path", {})
    return named, home


def bench(url: str, board: str = "alif-e8-hp") -> str:
    return f'extends = "{board}"\n[link]\nurl = "{url}"\n'


def test_what_is_found_first_counts(folders: tuple[Path, Path]) -> None:
    named, home = folders
    (home / "bench.toml").write_text(bench("home"))
    assert find_board("bench").link.url == "home"
    (named / "bench.toml").write_text(bench("named"))
    assert find_board("bench").link.url == "named"
    assert list(board_files()) == sorted([*(path.stem for path in SHIPPED.glob("*.toml")), "bench"])


def test_a_users_file_may_change_the_shipped_one_of_its_name(folders: tuple[Path, Path]) -> None:
    named, home = folders
    (home / "alif-e8-hp.toml").write_text(bench("home"))
    (named / "alif-e8-hp.toml").write_text('extends = "alif-e8-hp"\n[loading]\nserial = "1"\n')
    mine = find_board("alif-e8-hp")
    assert (mine.link.url, mine.loading.serial) == ("home", "1")
    assert mine.soc == find_soc("alif-e8-hp")
    # Ours are as they were, and those that extend it too.
    assert {board.link.url for board in shipped_boards()} == {None}
    assert find_board("alif-e8-he").link.url is None


def test_a_file_that_extends_a_name_that_only_it_has_says_so(folders: tuple[Path, Path]) -> None:
    (folders[0] / "alone.toml").write_text(bench("x", "alone"))
    with pytest.raises(UsageError, match=r"alone\.toml: extends: no board is called 'alone'"):
        find_board("alone")


def test_a_path_is_a_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text(OWN)
    assert find_board(str(tmp_path / "mine.toml")).name == "mine"
    monkeypatch.chdir(tmp_path)
    assert find_board("./mine.toml").soc.number == 4000
    assert find_board("mine.toml").soc.number == 4000
    (tmp_path / "more.toml").write_text('extends = "./mine.toml"\n[link]\nbaud = 57600\n')
    assert find_board("more.toml").link.baud == 57600
    with pytest.raises(UsageError, match=r"gone\.toml cannot be read: No such file"):
        find_board("gone.toml")


def test_the_system_of_a_path_is_known_from_then_on(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(OWN)
    with pytest.raises(ToolError, match="no system on chip is called 'mine'") as error:
        find_soc("mine")
    assert "files of boards declare alif-e7-he" in str(error.value.hint)
    board = find_board(str(tmp_path / "mine.toml"))
    assert find_soc("mine") == find_soc(str(tmp_path / "mine.toml")) == board.soc


def test_the_system_of_a_name_is_found(folders: tuple[Path, Path]) -> None:
    (folders[0] / "own.toml").write_text(OWN)
    (folders[0] / "bench.toml").write_text(bench("x"))
    assert find_soc("own").number == 4000
    assert find_soc("numaker-m55m1").npu_irq == 13
    with pytest.raises(ToolError):
        find_soc("bench")  # its system is called alif-e8-hp
    assert "own" not in [soc.name for soc in shipped_socs()]


def test_an_unknown_name_is_told_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no board is called 'numaker-m55'") as error:
        find_board("numaker-m55")
    assert str(error.value.hint).startswith("did you mean numaker-m55m1? boards: alif-e7-he,")


def test_a_wrong_file_does_not_keep_the_others_out(folders: tuple[Path, Path]) -> None:
    (folders[0] / "wrong.toml").write_text("= 1\n")
    boards, wrong = all_boards()
    assert len(boards) == len(list(SHIPPED.glob("*.toml")))
    assert len(wrong) == 1
    assert "wrong.toml is not TOML" in wrong[0].message


def test_a_folder_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETHOS_HIL_BOARDS", os.pathsep.join([str(tmp_path / "named"), str(tmp_path / "gone")]))
    with pytest.raises(UsageError, match=r"\$ETHOS_HIL_BOARDS: the folder .*/gone cannot be read: No such file"):
        board_files()
    monkeypatch.delenv("ETHOS_HIL_BOARDS")
    shutil.rmtree(tmp_path / "config")
    assert board_files()  # no one needs a folder of his own


def test_the_registry_finds_boards_in_a_process_that_has_not_imported_them() -> None:
    code = "from ethos_hil.harness.socs.registry import find_soc; print(hex(find_soc('ek-ra8p1').npu_registers.base))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "0x40140000\n", done.stderr
