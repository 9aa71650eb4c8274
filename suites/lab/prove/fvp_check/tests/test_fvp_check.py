"""`make fvp-check` on the launchers, and on what is not an FVP. No one here can run it on an FVP of Arm's."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
import typer

from ethos_hil.harness.fvp_stand_in.launcher import install
from ethos_hil.harness.image.pack import RunPlan
from ethos_hil.harness.socs.registry import FVP_PATH_VARIABLE
from ethos_hil.suites.lab.prove.fvp_check.command import main, without_user

FVP = "FVP_Corstone_SSE-300_Ethos-U55"
Capture = pytest.CaptureFixture[str]


def run(out: Path, *, timeout: float = 60.0) -> None:
    main(["corstone-300"], timeout, few=True, out=out)


@pytest.mark.slow
def test_on_a_launcher_everything_is_verified_and_cycles_are_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    install(tmp_path / "launchers")
    (tmp_path / "launchers" / f"{FVP[:-3]}U65").unlink()
    monkeypatch.setenv(FVP_PATH_VARIABLE, str(tmp_path / "launchers"))
    out = tmp_path / "new" / "check.zip"
    run(out)
    *_, last = capfd.readouterr().out.splitlines()
    assert last.startswith(f"{out}: ")
    assert "please send it" in last
    with zipfile.ZipFile(out) as file:
        files = {name: file.read(name) for name in file.namelist()}
    (fvp,) = json.loads(files["report.json"])["fvps"]
    assert fvp["tests"] == {"passed": 1}
    assert len(fvp["programs"]) == 2
    for program in fvp["programs"]:
        assert (program["verdict"], program["notes"]) == ("verified", [])
        assert program["counted"] == program["modelled"] > 0, "a launcher counts what the virtual board counts"
        assert program["events"] == program["modelled_events"]
        assert len(program["events"]) == len(RunPlan(1, 1).events(0))
    folder = "corstone-300-ethos-u55-128"
    names = {"version.txt", "list-params.txt", "tests.txt", "tests.jsonl"}
    names |= {f"conv-3x3/{name}" for name in ("command.txt", "console.txt", "uart.bin", "fvp.json", "virtual.json")}
    assert {f"{folder}/{name}" for name in names} <= files.keys()
    assert b"ethosu.num_macs=" in files[f"{folder}/list-params.txt"]
    assert len(files[f"{folder}/linear/uart.bin"]) > 1000
    home = str(Path.home()).encode()
    assert not [name for name, data in files.items() if home + b"/" in data]


def test_the_users_home_and_name_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/home/ada"))
    text = "/home/ada/fvps/FVP_X -a /tmp/ada/x.elf, /home/adam; ada@engine: a tirada of adapters"
    cleaned = "<home>/fvps/FVP_X -a /tmp/<user>/x.elf, /home/adam; <user>@engine: a tirada of adapters"
    assert without_user(text) == cleaned


SILENT = """[ "$1" = --version ] && echo "Fast Models [11.99.1]" && exit 0
[ "$1" = --list-params ] && exit 1
exec sleep 1000
"""
UNLICENSED = 'echo "License check failed!"\nexit 1\n'


@pytest.mark.parametrize(
    ("script", "told", "programs"),
    [
        (SILENT, "timeout: no end within 1 s, before its first frame", 1),  # no further program is tried
        (UNLICENSED, "licence: the FVP has no licence: License check failed!", 0),
    ],
    ids=["silent", "without a licence"],
)
def test_an_fvp_that_runs_nothing_is_told_and_sent_too(
    script: str, told: str, programs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    (tmp_path / FVP).write_text(f"#!/bin/sh\n{script}")
    (tmp_path / FVP).chmod(0o755)
    monkeypatch.setenv(FVP_PATH_VARIABLE, str(tmp_path))
    with pytest.raises(typer.Exit) as ended:
        run(tmp_path / "check.zip", timeout=1.0)
    assert ended.value.exit_code == 1
    assert told in capfd.readouterr().out
    with zipfile.ZipFile(tmp_path / "check.zip") as file:
        (fvp,) = json.loads(file.read("report.json"))["fvps"]
    assert (len(fvp["programs"]), fvp["tests"]) == (programs, {})
