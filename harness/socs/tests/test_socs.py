"""The declarations of systems on chip agree with themselves, with the NPUs there are, and with the firmware's build."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.socs.firmware_files import ALL_BOARDS, PRESETS, files_of, firmware_files, main
from ethos_hil.harness.socs.registry import MODELS, SOCS, check_unique, find_soc, fvp_model, shipped_socs, virtual_soc
from ethos_hil.harness.socs.soc import Soc, Window
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.virtual.mps3_an547 import missing

FIRMWARE = Path(__file__).resolve().parents[3] / "firmware"
each_soc = pytest.mark.parametrize("soc", SOCS, ids=lambda soc: soc.name)


def test_every_npu_has_a_system_that_the_virtual_board_can_be() -> None:
    for configuration in EthosU.all():
        assert configuration.name in virtual_soc(configuration.name).npu_names


@each_soc
def test_a_system_is_what_it_was(recorded: Recorded, soc: Soc) -> None:
    """All numbers of a declaration; those of the sources that it names."""
    values = {field.name: getattr(soc, field.name) for field in dataclasses.fields(soc)}
    entries = {name: value if name in ("memories", "npus", "uarts") else [value] for name, value in values.items()}
    recorded.check("\n".join(f"{name}: {entry!r}" for name in entries for entry in entries[name]))


def test_each_fvp_is_found_by_its_system_and_npu() -> None:
    assert {"FVP_Corstone_SSE-300_Ethos-U55", "FVP_Corstone_SSE-320"} <= set(MODELS)
    for model in MODELS.values():
        for npu in model.npu.names:
            assert fvp_model(model.soc.name, npu) == model
    assert fvp_model("corstone-300", "ethos-u85-256") is None


def test_the_firmwares_files_are_those_of_the_declarations() -> None:
    """Otherwise: python -m ethos_hil.harness.socs.firmware_files."""
    files = firmware_files()
    assert {name: (FIRMWARE / name).read_text() for name in files} == files
    generated = {f"boards/{path.parent.name}/soc.h" for path in FIRMWARE.glob("boards/*/soc.h")}
    assert generated == {name for name in files if name.endswith("soc.h")}, "files of a board that no one declares"


def test_make_and_cmake_know_the_boards() -> None:
    corstones = [soc.firmware.name for soc in SOCS]
    boards = [soc.firmware.name for soc in shipped_socs()]
    command = ["make", "-s", "-f", "-", "show"]
    rule = "include Makefile\nshow: ; @echo $(BOARDS)\n.PHONY: show\n"
    result = subprocess.run(command, cwd=FIRMWARE.parent, input=rule, capture_output=True, text=True, timeout=60)
    assert result.stdout.split() == sorted(corstones), result.stderr
    presets = {preset["name"]: preset for preset in json.loads((FIRMWARE / PRESETS).read_text())["configurePresets"]}
    others = presets.pop(ALL_BOARDS)["cacheVariables"]["ETHOS_HIL_BOARD"].split(";") if boards != corstones else []
    assert list(presets) == boards == corstones + others
    listed = subprocess.run(["cmake", "--list-presets"], cwd=FIRMWARE, capture_output=True, text=True, timeout=60)
    assert all(f'"{board}"' in listed.stdout for board in (*boards, "host")), listed.stdout + listed.stderr


PLACES = {
    "corstone-300": [
        *((0x10000000, 4), (0x00000000, 512 << 10), (0x38000000, 8 << 20), (0xDFFFFFFF, 1), (0xDFFFFFFF, 2)),
        (0x01100000, 4),  # QEMU's is larger than the board's
        *((0x3107FFFF, 4 << 20), (0x12000000, 4)),
    ],
    "corstone-320": [(0x31000000, 4 << 20), (0x02000000, 4), (0x121FFFFF, 2), (0x40000000, 4)],
}


def test_why_a_place_is_in_no_memory_of_the_virtual_board(recorded: Recorded) -> None:
    lines = [
        f"{name} {place[0]:#x} {place[1]}: {missing(*place, find_soc(name))}"
        for name in PLACES
        for place in PLACES[name]
    ]
    recorded.check("\n".join(lines))


def test_the_two_aliases_of_a_window_are_one_place() -> None:
    for window in (Window(0x58102000, 0x1000, 0x48102000), Window(0x40003000, 0x1000, 0x50003000)):
        assert window.alias is not None
        assert window.bases == tuple(sorted((window.base, window.alias)))
        assert window.offset_of(window.base + 8) == window.offset_of(window.alias + 8) == 8
        assert window.holds(window.alias, window.size)
        assert not window.holds(window.alias + 1, window.size)
    assert Window(0x70000000, 4).bases == (0x70000000,)


CORSTONE = find_soc("corstone-300")
PORT = dataclasses.replace(CORSTONE.firmware, port="MRAM")
POOL = dataclasses.replace(CORSTONE.firmware, pool="MRAM")
ERRORS: dict[str, Callable[[], object]] = {
    "an NPU that no system has": lambda: virtual_soc("ethos-u55-48"),
    "an unknown system": lambda: find_soc("corstone-999"),
    "an NPU that a virtual system has not": lambda: VirtualTarget("ethos-u85-256", soc="corstone-300"),
    "a system that QEMU has no machine for": lambda: VirtualTarget("ethos-u55-256", soc="ek-ra8p1"),
    "a virtual system that is unknown": lambda: VirtualTarget("ethos-u55-128", soc="corstone-3000"),
    "an unknown driver": lambda: files_of(dataclasses.replace(CORSTONE, uart="cmsdk2"), "my.toml"),
    "an unknown port": lambda: files_of(dataclasses.replace(CORSTONE, firmware=PORT), "my.toml"),
    "an unknown memory": lambda: firmware_files([dataclasses.replace(CORSTONE, firmware=POOL)]),
    **{
        f"two systems with the same {name}": lambda name=name: check_unique(  # type: ignore[misc]
            [SOCS[0], dataclasses.replace(SOCS[1], **{name: getattr(SOCS[0], name)})]
        )
        for name in ("name", "number", "npus")
    },
}


def test_what_is_wrong_is_told_with_what_there_is(recorded: Recorded) -> None:
    check_unique(SOCS)
    recorded.check_refusals(ERRORS, lambda name: ERRORS[name](), Exception)


def test_numbers_for_driver_and_port_are_in_the_files(recorded: Recorded) -> None:
    soc = dataclasses.replace(
        CORSTONE,
        uart_options=(("REGISTER_STRIDE", 4),),
        options=(("PCLK_HZ", 20_000_000), ("POWER_REGISTER", 0x1A60A004), ("LEAST", 0x1000), ("MOST", 0xFFF)),
        interrupts=240,
    )
    for name, text in files_of(soc, "my.toml").items():
        recorded.check(text, name)


def test_the_files_of_one_board_go_into_any_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--board", "corstone-300", "--into", str(tmp_path / "mine")]) == 0
    assert {path.name for path in (tmp_path / "mine").iterdir()} == {"soc.h", "memory.ld", "board.cmake"}
    (tmp_path / "file").write_text("")
    for name, folder, words in (
        ("corstone-3", "", "called 'corstone-3'"),
        ("corstone-300", "file", "cannot be written"),
    ):
        assert main(["--board", name, "--into", str(tmp_path / folder)]) == 2
        assert words in capsys.readouterr().err
