"""The FVP's command line: lines of public scripts are understood, and errors are named."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.testing.recorded import Recorded, plain
from ethos_hil.harness.fvp_stand_in.command_line import CommandLineError, LaunchSettings, parse
from ethos_hil.harness.fvp_stand_in.launcher import install
from ethos_hil.harness.fvp_stand_in.parameters import PARAMETERS, Treatment, listing
from ethos_hil.harness.fvp_stand_in.tests.jobs import DATA
from ethos_hil.harness.socs.registry import MODELS, FvpModel

FVPS = {name.removeprefix("FVP_Corstone_SSE-").removeprefix("300_Ethos-"): model for name, model in MODELS.items()}
CORSTONE_300_U55, CORSTONE_320 = FVPS["U55"], FVPS["320"]
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
    config.write_text("\nnonsense\n")
    with pytest.raises(CommandLineError) as caught:
        parse(CORSTONE_300_U55, ["x", "-f", str(config)])
    assert str(caught.value) == f"{config}, line 2: a parameter is set by name=value, not 'nonsense'"


def test_the_output_of_list_params_is_a_configuration_file(tmp_path: Path) -> None:
    config = tmp_path / "parameters.txt"
    for model in MODELS.values():
        config.write_text(listing(model))
        assert settings(model, f"-f {config} x") == settings(model, "x")
    # Of two parameters for one address, the list sets both; what is set behind it counts.
    config.write_text(listing(CORSTONE_320))
    setting = "-C mps4_board.subsystem.iotss3_systemcontrol.INITSVTOR_RST=0x10000000"
    assert settings(CORSTONE_320, f"-f {config} {setting} x").boot == 0x10000000


def test_rows_are_unambiguous_and_have_reasons() -> None:
    for model in MODELS.values():
        names = [row.name(model) for row in PARAMETERS if row.on(model)]
        assert len(set(names)) == len(names)
    for row in PARAMETERS:
        assert row.note
        if row.default:
            assert replace(row, treatment=Treatment.IGNORED).value(row.default) is not None


# --- The installed executables without a program to run: queries and errors. ---


def ask(launchers: Path, executable: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(launchers / executable), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize("executable", MODELS)
def test_version_lists_and_help(launchers: Path, executable: str) -> None:
    version, listing, help_ = (ask(launchers, executable, word) for word in ("--version", "--list-params", "--help"))
    assert [(done.returncode, done.stderr) for done in (version, listing, help_)] == [(0, "")] * 3
    assert version.stdout.startswith(f"{executable}: ethos-hil ")
    assert "not Arm's" in version.stdout
    assert MODELS[executable].fvp.npu_path + ".num_macs=" in listing.stdout
    assert "--timelimit SECONDS" in help_.stdout


ERRORS = {
    "no such parameter": ("-C", "ethosu.num_mac=1", "x"),
    "no such file": ("-a", "/nowhere/x.elf"),
    "no ELF": ("-a", "/etc/passwd"),
    "an ELF of this computer": ("-a", "/bin/sh"),
    "no such option": ("--nonsense",),
    "no QEMU": (),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_one_line_and_status_1(
    recorded: Recorded, launchers: Path, guest: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("ETHOS_HIL_QEMU", "/nowhere/qemu")
    elf = guest("corstone-300")
    done = ask(launchers, "FVP_Corstone_SSE-300_Ethos-U55", *(ERRORS[name] or (str(elf),)))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    recorded.check(plain(done.stderr, [elf.parent]))


def test_launchers_need_nothing_of_the_callers_python(launchers: Path, tmp_path: Path) -> None:
    (tmp_path / "ethos_hil.py").write_text("raise SystemExit('not this one')")
    command = [str(launchers / "FVP_Corstone_SSE-320"), "--version"]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path), "PYTHONHOME": "/nowhere"}
    assert subprocess.run(command, cwd=tmp_path, env=environment, timeout=30, check=False).returncode == 0


def test_command_of_ethos_hil_installs_them(tmp_path: Path) -> None:
    folder = tmp_path / "with blanks" / "bin"
    command = [sys.executable, "-m", "ethos_hil.harness.cli.main", "fvp-launchers", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("\n")[:-1] == [str(folder / name) for name in MODELS]
    assert ask(folder, "FVP_Corstone_SSE-320", "--version").returncode == 0
    with pytest.raises(UsageError, match="cannot be written to"):
        install(folder / "FVP_Corstone_SSE-320")


def test_what_starts_qemu_does_not_import_the_npus_model() -> None:
    """QEMU starts while Python imports it."""
    code = (
        "import sys, ethos_hil.harness.fvp_stand_in.simulation, ethos_hil.harness.fvp_stand_in.command_line\n"
        "print(sorted({'numpy', 'ethos_hil.harness.npu', 'torch'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
