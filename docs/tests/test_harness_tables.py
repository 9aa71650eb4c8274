"""The tables that are made from the harness have all that there is; the site has them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from harness_tables import board_tables, fvp_settings, launcher_options, launcher_parameters

from ethos_hil.harness.boards.catalogue import shipped_boards
from ethos_hil.harness.fvp_stand_in.command_line import Action
from ethos_hil.harness.fvp_stand_in.launcher import answer
from ethos_hil.harness.socs.registry import MODELS
from ethos_hil.harness.targets import fvp_parameters
from ethos_hil.harness.targets.fvp_parameters import Need

DOCS = Path(__file__).resolve().parents[1]


def test_every_board_has_its_table_in_the_documents() -> None:
    """The tables themselves are made when the site is built."""
    tables = board_tables()
    shown = re.findall(r"{generated} ([\w-]+)", (DOCS / "boards.md").read_text())
    assert sorted(shown) == sorted(tables)
    rows = tables["board-numaker-m55m1"]
    row = "| `soc.npu.base` | 0x40003000 | OpenNuvoton/M55M1BSP, Library/Device/Nuvoton/M55M1/Include/M55M1.h: NPU_BASE"
    assert row in rows
    assert "| `soc.npu.irq` | 13 |" in rows
    for board in shipped_boards():
        values = [value.key for value in board.values if value.key not in ("description", "notes", "quirks")]
        assert re.findall(r"^\| `([^`]+)` \|", tables[f"board-{board.name}"], re.MULTILINE) == values


@pytest.mark.parametrize("executable", MODELS)
def test_the_tables_have_all_that_a_launcher_takes(executable: str) -> None:
    listed = answer(Action.LIST, MODELS[executable]).splitlines()
    names = {line.partition("=")[0] for line in listed[3:]}
    in_table = {
        name.replace("#", digit) for name in re.findall(r"`([^`]+)`", launcher_parameters()) for digit in "012345"
    }
    assert len(names) > 20
    assert names - in_table == set()
    help_text = answer(Action.HELP, MODELS[executable])
    assert set(re.findall(r"--[a-z][a-z-]+", help_text)) <= set(re.findall(r"--[a-z][a-z-]+", launcher_options()))


def test_the_table_of_fvps_has_every_parameter() -> None:
    table = fvp_settings()
    for row in fvp_parameters.PARAMETERS:
        assert f"`{row.name(MODELS['FVP_Corstone_SSE-320'].fvp)}`" in table
    assert "vis_hdlcd.disable_visualisation" in table
    assert len({row.need for row in fvp_parameters.PARAMETERS}) == len(Need)
