"""The installed executables without a program to run: queries, errors, and the tables of the documents."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.fvp_stand_in.launcher import install
from ethos_hil.harness.socs.registry import MODELS


def ask(launchers: Path, executable: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(launchers / executable), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize("executable", MODELS)
def test_version_says_what_it_is(launchers: Path, executable: str) -> None:
    done = ask(launchers, executable, "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{executable}: ethos-hil ")
    assert "not Arm's" in done.stdout


@pytest.mark.parametrize("executable", MODELS)
def test_lists_and_help(launchers: Path, executable: str) -> None:
    parameters = ask(launchers, executable, "--list-params")
    assert parameters.returncode == 0
    assert MODELS[executable].fvp.npu_path + ".num_macs=" in parameters.stdout
    assert "--timelimit SECONDS" in ask(launchers, executable, "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-C", "ethosu.num_mac=1", "x"), "did you mean ethosu.num_macs?"),
        (("-a", "/nowhere/x.elf"), "the application /nowhere/x.elf cannot be read: No such file or directory"),
        (("-a", "/etc/passwd"), "cannot be run: it is not a 32-bit little-endian ELF file"),
        (("-a", sys.executable), "cannot be run: it is not a 32-bit little-endian ELF file"),
        (("--nonsense",), "option --nonsense not recognized"),
    ],
)
def test_errors_are_one_line_and_status_1(launchers: Path, arguments: tuple[str, ...], message: str) -> None:
    done = ask(launchers, "FVP_Corstone_SSE-300_Ethos-U55", *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_missing_qemu_is_named(launchers: Path, guest: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETHOS_HIL_QEMU", "/nowhere/qemu")
    assert callable(guest)
    done = ask(launchers, "FVP_Corstone_SSE-320", str(guest("corstone-320")))
    assert done.returncode == 1
    assert done.stderr.startswith("Error: the virtual board needs QEMU: ETHOS_HIL_QEMU is '/nowhere/qemu'")


def test_launchers_need_nothing_of_the_callers_python(launchers: Path, tmp_path: Path) -> None:
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "__init__.py").write_text("raise SystemExit('not this one')")
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


def test_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written to"):
        install(tmp_path / "file")


def test_what_starts_qemu_does_not_import_the_npus_model() -> None:
    """QEMU starts while Python imports it."""
    code = (
        "import sys, ethos_hil.harness.fvp_stand_in.simulation, ethos_hil.harness.fvp_stand_in.command_line\n"
        "print(sorted({'numpy', 'ethos_hil.harness.npu', 'torch'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
