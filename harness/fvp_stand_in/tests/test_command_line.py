"""The FVP's command line: lines of public scripts are understood, and errors are named."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace
from pathlib import Path

import pytest

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.fvp_stand_in.command_line import (
    CommandLineError,
    LaunchSettings,
    parse,
)
from ethos_hil.harness.fvp_stand_in.parameters import PARAMETERS, Treatment, listing
from ethos_hil.harness.fvp_stand_in.tests.conftest import (
    CORSTONE_300_U55,
    CORSTONE_300_U65,
    CORSTONE_310_U55,
    CORSTONE_320,
)
from ethos_hil.harness.fvp_stand_in.tests.jobs import DATA
from ethos_hil.harness.socs.registry import MODELS, FvpModel

FVPS = {"U55": CORSTONE_300_U55, "U65": CORSTONE_300_U65, "310": CORSTONE_310_U55, "320": CORSTONE_320}
_PARTS = (DATA / "command_lines.txt").read_text().split("\n## ")[1:]
LINES = {part.splitlines()[0].partition(",")[0]: part.splitlines()[1:] for part in map(str.strip, _PARTS)}


def settings(model: FvpModel, text: str) -> LaunchSettings:
    parsed = parse(model, shlex.split(text))
    assert isinstance(parsed, LaunchSettings)
    return parsed


def outcome(line: str) -> str:
    """Return what a line of the file means: all settings, a question, or an error."""
    model, _, text = line.partition(" ")
    try:
        parsed = parse(FVPS[model], shlex.split(text))
    except CommandLineError as error:
        return f"    error: {error}"
    if not isinstance(parsed, LaunchSettings):
        return f"    {parsed}"
    values = {field.name: getattr(parsed, field.name) for field in fields(parsed)}
    return "\n".join(f"    {name}: {value!r}" for name, value in values.items() if name != "model")


@pytest.mark.parametrize("name", LINES)
def test_what_a_line_means(recorded: Recorded, name: str) -> None:
    recorded.check("\n".join(f"{line}\n{outcome(line)}" for line in LINES[name]))


def test_the_last_setting_counts_and_files_come_in_order(tmp_path: Path) -> None:
    config = tmp_path / "fvp.txt"
    config.write_text(
        "# Parameters:\n\nethosu.num_macs=64   # (int) how many\nmps3_board.uart0.shutdown_tag='a # b'\n", "utf-8"
    )
    assert settings(CORSTONE_300_U55, f"-C ethosu.num_macs=32 -f {config} x").npu == "ethos-u55-64"
    line = settings(CORSTONE_300_U55, f"--config-file={config} --parameter ethosu.num_macs=0x20 x")
    assert (line.npu, line.uart.shutdown_tag) == ("ethos-u55-32", "a # b")


def test_the_output_of_list_params_is_a_configuration_file(tmp_path: Path) -> None:
    for model in MODELS.values():
        config = tmp_path / "parameters.txt"
        config.write_text(listing(model))
        assert settings(model, f"-f {config} x") == settings(model, "x")


def test_a_setting_after_a_list_of_parameters_counts(tmp_path: Path) -> None:
    """Of two parameters for one address, the list sets both."""
    config = tmp_path / "parameters.txt"
    config.write_text(listing(CORSTONE_320))
    setting = "-C mps4_board.subsystem.iotss3_systemcontrol.INITSVTOR_RST=0x10000000"
    assert settings(CORSTONE_320, f"-f {config} {setting} x").boot == 0x10000000


def test_an_error_in_a_configuration_file_names_the_line(tmp_path: Path) -> None:
    config = tmp_path / "fvp.txt"
    config.write_text("\nnonsense\n")
    with pytest.raises(CommandLineError) as caught:
        parse(CORSTONE_300_U55, ["x", "-f", str(config)])
    assert str(caught.value) == f"{config}, line 2: a parameter is set by name=value, not 'nonsense'"


def test_rows_are_unambiguous_and_have_reasons() -> None:
    for model in MODELS.values():
        names = [row.name(model) for row in PARAMETERS if row.on(model)]
        assert len(set(names)) == len(names)
    for row in PARAMETERS:
        assert row.note
        if row.default:
            assert replace(row, treatment=Treatment.IGNORED).value(row.default) is not None
