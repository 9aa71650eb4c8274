"""The tables and lists of the documents have all that there is: kernels, boards, launchers, FVPs, failures, tests."""

from __future__ import annotations

import re

import kernel_table
import on_the_cpu
import pytest
import tiers_table
from blocks import ROOT
from harness_tables import board_tables, fvp_settings, launcher_options, launcher_parameters
from tiers_table import TIERS, functions, tier

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import NOT_ATTEMPTED, FailureKind
from ethos_hil.harness.boards.catalogue import shipped_boards
from ethos_hil.harness.fvp_stand_in.command_line import Action
from ethos_hil.harness.fvp_stand_in.launcher import answer
from ethos_hil.harness.image.firmware_elf import Firmware
from ethos_hil.harness.socs.registry import MODELS
from ethos_hil.harness.targets import fvp_parameters
from ethos_hil.harness.targets.fvp_parameters import Need

DOCS = ROOT / "docs"
ELF = ROOT / "build/firmware/corstone300/ethos-hil.elf"
KIND = re.compile(r"^\| `([a-z-]+)` \|", re.MULTILINE)
MOST = {"probe", "readback", "wrong-board", "lost-board", "leased", "link", "timeout", "not-launched"}


def section(document: str, begin: str, end: str) -> str:
    text = (DOCS / document).read_text("utf-8")
    assert text.count(begin) == 1
    return text.split(begin)[1].split(end)[0]


def test_the_words_for_failures_are_those_that_the_program_has() -> None:
    assert sorted(["mismatch", *KIND.findall(section("formats.md", "| `mismatch` |", "\n\n"))]) == sorted(FailureKind)
    listed = section("formats.md", "an attempt that the target has spoilt (", ")")
    assert set(re.findall(r"`([a-z-]+)`", listed)) == set(NOT_ATTEMPTED)
    kinds = KIND.findall(section("boards.md", "## What each failure looks like", "\n## "))
    assert len(kinds) == len(set(kinds))
    assert set(FailureKind) >= set(kinds) >= MOST


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


def test_the_kernels_are_the_operators_that_the_elf_lists(recorded: Recorded) -> None:
    rows = {row.operator: row for row in kernel_table.rows()}
    assert sorted(rows) == sorted(Firmware.read(ELF.read_bytes()).operators or ())
    shown = kernel_table.markdown()
    assert [line for line in shown.splitlines()[2:] if line.rstrip("| ").count("|") < 4] == []
    heads = tuple(f"| `aten::{name}`" for name in ("maximum.out", "exp.out", "view_copy.out"))
    recorded.check("\n".join(line for line in shown.splitlines() if line.startswith(heads)))
    assert (rows["aten::exp.out"].bounded, rows["aten::exp.out"].exact) == (True, False)


def test_every_test_is_in_the_table_and_guards_are_counted() -> None:
    shown = tiers_table.markdown()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown.splitlines()]
    numbers = {row[0]: [int(cell.replace(",", "")) for cell in row[1:]] for row in cells[2:]}
    whole = numbers.pop("all")
    assert whole == [sum(column) for column in zip(*numbers.values(), strict=True)]
    assert all(numbers[room][0] > 20 for room in numbers if room not in ("laboratory", "labgrid"))
    assert whole[-1] > 70  # functions: several guards are rows of one table
    assert numbers["laboratory"][TIERS.index("lab")] > 40


@pytest.mark.parametrize(
    ("file", "name", "where"),
    [
        ("harness/tests/test_wheel.py", "test_it_says_what_it_is_made_of", "environment"),
        ("harness/tests/test_setup.py", "test_a_file_with_another_hash_is_refused", "environment"),
        ("harness/tests/test_setup.py", "test_a_line_without_a_pin_is_found", "make test"),
        ("harness/tests/test_setup.py", "test_an_environment_that_was_not_finished_is_made_anew", "proof"),
        ("suites/lab/tests/test_lab.py", "test_a_part_that_fails_ends_with_1_and_the_others_run", "lab"),
    ],
)
def test_a_test_is_in_the_tier_of_its_markers(file: str, name: str, where: str) -> None:
    assert dict(functions(ROOT / file))[name] == where
    guard_of_the_product = ROOT / "suites/lab/prove/conformance/tests/test_conformance.py"
    assert tier(guard_of_the_product, ["product", "slow"]) == "make test"


def test_guards_of_the_product_stay_in_make_test() -> None:
    """Two larger ones of the suites are proofs: each has a smaller one of the same kind beside it, which is not."""
    places = [
        (where, name)
        for room in tiers_table.ROOMS
        if room != "laboratory"
        for path in tiers_table.files(room)
        for name, where in functions(path)
        if tiers_table.GUARD.search(name) and where in ("proof", "lab")
    ]
    assert places == [("proof", "test_a_compiler_that_returns_zeros_is_red")]


def test_what_to_write_instead_is_kept_in_its_page() -> None:
    page = on_the_cpu.PAGE.read_text("utf-8")
    assert page == on_the_cpu.renewed(page), "python docs/on_the_cpu.py renews it"
    assert "`x[:, None] * y`" in page
