"""The installed executables without a program to run: queries, errors, and the tables of the documents."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.fvp_stand_in.launcher import install
from ethos_hil.harness.socs.registry import MODELS
from ethos_hil.harness.testing.snapshot import plain


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
